// Sealed messages: only the analyzer can read them, and all of a run are equally long (docs/wire.md, section 8).

import { chacha20poly1305 } from "@noble/ciphers/chacha.js";
import { x25519 } from "@noble/curves/ed25519.js";
import { hkdf } from "@noble/hashes/hkdf.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { ascii, concat, ParameterError } from "./bytes.js";
import { frame } from "./messages.js";

const INFO = concat(ascii("privpac seal v1"), new Uint8Array(1));

/**
 * A message that only the holder of the analyzer's private key can read.
 *
 * `ephemeral`, the one-time private key, is for test vectors only: a key used twice gives the messages away.
 */
export function seal(run, kind, analyzer, message, ephemeral = crypto.getRandomValues(new Uint8Array(32))) {
  const own = x25519.getPublicKey(ephemeral);
  let shared;
  try {
    shared = x25519.getSharedSecret(ephemeral, analyzer);
  } catch {
    throw new ParameterError("the analyzer's public key is a point of small order; nothing was sealed");
  }
  const key = hkdf(sha256, shared, run, concat(INFO, own, analyzer), 32);
  const text = chacha20poly1305(key, new Uint8Array(12), run).encrypt(message);
  return concat(frame("PPX1", kind, run), own, text);
}
