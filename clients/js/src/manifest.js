// The manifest: everything that is fixed and published before anyone reads their data (docs/wire.md, section 1). It is
// read, and refused, before a record is looked at.

import { ascii, ManifestError, PrivpacError, unhex, utf8 } from "./bytes.js";
import { Column } from "./columns.js";
import { exact, ratio } from "./exact.js";
import { canonical, readJson } from "./json.js";
import { CentralItems, KIND_OF, LocalReports, ShuffledBuckets } from "./messages.js";
import { checkSignature } from "./signature.js";
import { learnerOf } from "./tasks.js";
import { keepsLocal, MAX_CAP, shuffleDelta } from "./verify.js";
import { digest } from "./words.js";

export const VERSION = 2n;
const MOST_BYTES = 1 << 20;
const MOST_RECORDS = (1n << 31n) - 1n;
const OVERHEAD = 61;
const KEYS =
  "v protocol rule parameters features label seed m_min m_cap default beta mechanism guarantee analyzer".split(" ");
const MECHANISM = {
  central: ["selector"],
  local: ["keep", "width"],
  shuffle: ["r", "p", "n_min", "n_max", "cap", "width", "direction"],
};
const CLAIM = ["epsilon", "delta", "neighbours", "unit"];
const PUBLISHED = ["coordinator", "manifest", "signature"];

function object(value, name, keys = null) {
  if (!(value instanceof Map)) throw new ManifestError(`${name} must be an object`);
  if (keys && (value.size !== keys.length || keys.some((key) => !value.has(key))))
    throw new ManifestError(`${name} must hold ${keys.join(", ")}`);
  return value;
}

function count(value) {
  if (typeof value !== "bigint" || value < 1n) throw new ManifestError("a count is an integer of at least 1");
  return value;
}

/**
 * A manifest that keeps what it promises; the constructor refuses any other. `coordinator` is whose signature it carries
 * (and that was checked), or null.
 */
export class Manifest {
  /** @param {string | Uint8Array} data the JSON text, in any layout: what a coordinator published, or a bare manifest */
  constructor(data) {
    try {
      if ((typeof data === "string" ? utf8(data) : data).length > MOST_BYTES)
        throw new ManifestError(`a manifest has at most ${MOST_BYTES} bytes`);
      const text = typeof data === "string" ? data : new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
      const values = object(readJson(text), "the manifest");
      const signed = PUBLISHED.some((key) => values.has(key));
      const manifest = signed ? object(values.get("manifest"), "manifest") : values;
      this.bytes = ascii(canonical(manifest));
      this.coordinator = signed ? this.#signer(values) : null;
      this.#read(manifest);
    } catch (error) {
      if (error instanceof ManifestError) throw error;
      const said = error instanceof PrivpacError ? error.message : "an entry has a wrong type or is too large";
      throw new ManifestError(`the manifest is refused: ${said}`);
    }
  }

  #signer(values) {
    const [key, signature] = ["coordinator", "signature"].map((name) => unhex(values.get(name)));
    if (values.size !== PUBLISHED.length || key?.length !== 32 || signature?.length !== 64)
      throw new ManifestError(
        "a signed manifest holds coordinator (64 hexadecimal digits in small letters), manifest and signature (128 of " +
          "them), and nothing else",
      );
    checkSignature(this.bytes, key, signature);
    return key;
  }

  #read(values) {
    if (!values.has("v")) throw new ManifestError("key 'v' is missing");
    if (values.get("v") !== VERSION)
      throw new ManifestError(
        `the manifest has version ${typeof values.get("v") === "bigint" ? values.get("v") : "unknown"} of the protocol and ` +
          `this program speaks version ${VERSION}; use the client and the manifest of one release`,
      );
    const strange = [...values.keys()].find((key) => !KEYS.includes(key));
    if (strange !== undefined) throw new ManifestError(`the manifest has an unknown key '${strange.slice(0, 40)}'`);
    const missing = KEYS.find((key) => !values.has(key));
    if (missing) throw new ManifestError(`key '${missing}' is missing`);
    const get = (key) => values.get(key);
    this.run = digest(this.bytes);
    this.protocol = get("protocol");
    if (!Object.hasOwn(MECHANISM, this.protocol)) throw new ManifestError("protocol must be one of central, local, shuffle");
    const mechanism = object(get("mechanism"), "mechanism", MECHANISM[this.protocol]);
    const claim = object(get("guarantee"), "guarantee", CLAIM);
    if (claim.get("unit") !== "user" || typeof get("label") !== "string")
      throw new ManifestError("the unit is the user, and the label is a column's name");
    this.label = get("label");
    if (!Array.isArray(get("features")) || !get("features").length)
      throw new ManifestError("features must list at least one column");
    this.columns = get("features").map((entry) => new Column(entry));
    if (new Set([...this.columns.map((column) => column.name), this.label]).size !== this.columns.length + 1)
      throw new ManifestError("columns must have different names");
    this.seed = unhex(get("seed"));
    if (!this.seed || this.seed.length !== 32)
      throw new ManifestError("the seed is 64 hexadecimal digits in small letters");
    this.rule = get("rule");
    [this.mMin, this.mCap] = [count(get("m_min")), count(get("m_cap"))];
    if (this.mMin > MOST_RECORDS || this.mCap > MOST_RECORDS)
      throw new ManifestError(`m_min and m_cap are at most ${MOST_RECORDS}`);
    const sizes = this.columns.map((column) => column.size);
    const records = { mMin: this.mMin, mCap: this.mCap };
    this.learner = learnerOf(this.rule, sizes, object(get("parameters"), "parameters"), records);
    this.default = unhex(get("default"));
    if (!this.default || (this.default.length && !this.learner.universe.has(this.default)))
      throw new ManifestError("the default is no rule of this class");
    this.analyzer = unhex(get("analyzer"));
    if (!this.analyzer || ![0, 32].includes(this.analyzer.length))
      throw new ManifestError("the analyzer's public key is 64 hexadecimal digits in small letters, or an empty text");
    this.sealed = this.analyzer.length > 0;
    const beta = exact(get("beta"));
    if (beta.top <= 0n || beta.compare(ratio(1)) >= 0)
      throw new ManifestError("beta, the chance that noise is released as a rule, is above 0 and below 1");
    this.epsilon = exact(claim.get("epsilon"));
    this.delta = exact(claim.get("delta"));
    this.neighbours = claim.get("neighbours");
    if (this.epsilon.top <= 0n || this.delta.top < 0n || this.delta.compare(ratio(1)) >= 0)
      throw new ManifestError("the guarantee needs epsilon > 0 and 0 <= delta < 1");
    this.kind = KIND_OF[this.protocol];
    this[`_${this.protocol}`](mechanism);
  }

  // The mechanism keeps what is claimed

  _local(mechanism) {
    const width = count(mechanism.get("width"));
    this.sends = new LocalReports(this.learner.universe.bits, exact(mechanism.get("keep")), Number(width));
    if (this.neighbours !== "replace" || !keepsLocal(this.sends.keep, this.epsilon))
      throw new ManifestError("the reports lose more than the guarantee claims");
    this.mostMessages = 1;
    this.messageBytes = 20 + (this.sealed ? OVERHEAD : 0);
  }

  _shuffle(mechanism) {
    const width = mechanism.get("width") === 0n ? 0n : count(mechanism.get("width"));
    const [nMin, nMax, cap] = ["n_min", "n_max", "cap"].map((key) => count(mechanism.get(key)));
    const [r, p] = ["r", "p"].map((key) => exact(mechanism.get(key)));
    const direction = mechanism.get("direction");
    this.sends = new ShuffledBuckets(this.learner.universe.size, { r, p, nMin, cap, width, direction });
    if (this.neighbours !== "replace" || nMin > nMax || nMax > 1n << 40n)
      throw new ManifestError("a shuffled count is private under replace, for n_min to n_max clients");
    if (cap > MAX_CAP) throw new ManifestError(`a client sends at most ${MAX_CAP} messages`);
    if (shuffleDelta(this.sends, nMax, this.epsilon).compare(this.delta) > 0)
      throw new ManifestError("the noise is too small for the guarantee claimed");
    this.mostMessages = Number(cap);
    this.messageBytes = 17 + (this.sealed ? OVERHEAD : 0);
  }

  _central(mechanism) {
    const selector = mechanism.get("selector");
    if (!["histogram", "pure"].includes(selector) || !["add-remove", "replace"].includes(this.neighbours))
      throw new ManifestError("a central selector is 'histogram' or 'pure'");
    if ((selector === "pure") !== (this.delta.top === 0n))
      throw new ManifestError("the selector 'pure' has delta 0, the selector 'histogram' a larger one");
    const longest = this.learner.universe.longest;
    this.sends = new CentralItems(this.sealed ? longest : 0);
    this.mostMessages = 1;
    this.messageBytes = 15 + longest + (this.sealed ? OVERHEAD : 0);
  }
}
