// A client: needs the manifest, a person's own records and their store, nothing else.

import { ParameterError } from "./bytes.js";
import { encode } from "./columns.js";
import { Manifest } from "./manifest.js";
import { seal } from "./seal.js";
import { systemDraws } from "./words.js";

export class Client {
  /** @param {Manifest | string | Uint8Array} manifest */
  constructor(manifest) {
    this.manifest = manifest instanceof Manifest ? manifest : new Manifest(manifest);
  }

  /** The person's item: a function of these records and of public numbers only. It must not leave the device as it is. */
  item(records) {
    const { columns, label, learner, mCap, mMin, seed } = this.manifest;
    const codes = encode(columns, label, records, Number(mCap));
    return BigInt(codes.y.length) < mMin ? null : learner.item(codes, seed);
  }

  /** Messages before they are sealed. Every call is a release of its own. */
  plain(item, draws) {
    const { learner, protocol, run, sends } = this.manifest;
    if (protocol === "central") return sends.messages(run, item ?? new Uint8Array(0));
    return sends.messages(run, item === null ? null : learner.universe.number(item), draws);
  }

  /**
   * What to send: drawn and charged to the person's store once, the same bytes ever after.
   *
   * @param records the person's own, an iterable of objects by column name
   * @param {import("./device.js").Device} device the person's store
   * @param {string | null} person whose records these are; refused if the store is somebody else's
   * @returns {Promise<{messages: Uint8Array[], again: boolean}>}
   */
  async messages(records, device, person = null) {
    if (!device) throw new ParameterError("a person's store is needed: without it a second draw would be a second release");
    return device.messages(this.manifest, () => this.drawn(records), person);
  }

  drawn(records) {
    const { analyzer, kind, run, sealed } = this.manifest;
    const plain = this.plain(this.item(records), systemDraws());
    return sealed ? plain.map((message) => seal(run, kind, analyzer, message)) : plain;
  }
}
