// Signed manifests: a device takes the analyzer's key, and everything else, from the coordinator it trusts and from nobody
// on the way (docs/wire.md, section 1).

import { ed25519 } from "@noble/curves/ed25519.js";
import { ascii, concat, hex, ManifestError, ParameterError } from "./bytes.js";
import { digest } from "./words.js";

const TEXT = concat(ascii("privpac manifest v1"), new Uint8Array(1));
const NAME = concat(ascii("privpac coordinator v1"), new Uint8Array(1));

/** A coordinator's public key; refuses what is no key, written in a second way, or a point of small order. */
export function soundKey(key) {
  if (!(key instanceof Uint8Array) || key.length !== 32) throw new ParameterError("a coordinator's public key has 32 bytes");
  let point;
  try {
    point = ed25519.Point.fromBytes(key);
  } catch {
    point = null;
  }
  if (!point || point.isSmallOrder())
    throw new ParameterError("this coordinator's public key is no key: anyone could sign for it");
  return key;
}

/** What people compare: 32 hexadecimal digits in groups of four. */
export const fingerprint = (key) => hex(digest(concat(NAME, key)).subarray(0, 16)).replace(/(....)(?=.)/g, "$1 ");

/** Raises unless these canonical bytes are what the coordinator signed. */
export function checkSignature(manifest, coordinator, signature) {
  let key;
  try {
    key = soundKey(coordinator);
  } catch (error) {
    throw new ManifestError(`the manifest is refused: ${error.message}`);
  }
  let right = false;
  try {
    // Strict: one way to write a point, S below the group's order.
    right = ed25519.verify(signature, concat(TEXT, manifest), key, { zip215: false });
  } catch {
    right = false;
  }
  if (!right)
    throw new ManifestError(
      "the manifest is not what its coordinator signed: it, its signature or the key was changed on the way; fetch it " +
        "again from the coordinator",
    );
}
