// A person's own store on the device: what all runs together may cost, and the messages already drawn.
//
// A run is charged and its messages are kept in one durable step, before anything is sent; what would exceed the total is
// refused before the records are read. Runs are numbered and only ever added, each number once: of two programs that add
// at the same time one finds the number taken, reads again, and throws its draw away unsent.
//
// A storage has: owner() and runs() to read, found(owner) and add(place, run) to write once; the latter two answer false
// if there is something already. `stores/` has one for browsers, one for files, one in memory.

import { BudgetExhausted, concat, hex, ManifestError, ParameterError, unhex } from "./bytes.js";
import { exact, ratio } from "./exact.js";
import { digest } from "./words.js";

export const ACCEPTED = ["local", "shuffle"];
const MODELS = ["local", "shuffle", "central"];
const EMPTIED = "the store was emptied or damaged; restore it: another draw would be a second release";
const TRIES = 64;

const sealOf = (run, messages) => hex(digest(concat(run, ...messages)));

export class Device {
  constructor(storage, owner) {
    Object.assign(this, { storage, person: owner.person, accepts: owner.accepts, unsealed: owner.unsealed });
    this.epsilon = exact(owner.epsilon);
    this.delta = exact(owner.delta);
  }

  /**
   * Make a store; never over another one.
   *
   * @param storage where it is kept
   * @param {string} person whose records these are: the name at the collector
   * @param {string} epsilon what all runs together may cost, such as "1" or "1/2"
   * @param {string} delta
   * @param {string[]} accepts trust models; "central" only if named: its curator reads the person's own rule
   * @param {boolean} unsealed whether shuffled and central runs may be joined whose messages are not sealed
   */
  static async create(storage, { person, epsilon, delta = "0", accepts = ACCEPTED, unsealed = false }) {
    const [total, small] = [exact(epsilon), exact(delta)];
    if (total.top <= 0n || small.top < 0n || small.compare(ratio(1)) >= 0)
      throw new ParameterError("a store's total needs epsilon > 0 and 0 <= delta < 1");
    if (!accepts.length || accepts.some((model) => !MODELS.includes(model)))
      throw new ParameterError(`a device accepts local, shuffle or central; got ${accepts.join(", ") || "nothing"}`);
    if (typeof person !== "string" || !person || person.length > 100)
      throw new ParameterError("a store belongs to one person: give a name of 1 to 100 characters");
    const owner = { v: 1, person, epsilon: `${total}`, delta: `${small}`, accepts: [...accepts], unsealed };
    if (!(await storage.found(owner)))
      throw new ParameterError("there is a store already, and a total is never changed; choose another place");
    return new Device(storage, owner);
  }

  /** The store of a place; a missing, emptied or damaged one is an error, never a new beginning. */
  static async open(storage) {
    const owner = await storage.owner();
    if (owner === null)
      throw new ParameterError(
        "there is no store here; make one. If there was one, restore it: a message drawn anew would be a second release",
      );
    if (owner?.v !== 1) throw new ParameterError(EMPTIED);
    return new Device(storage, owner);
  }

  /** Raises unless this person takes part in such runs. */
  agrees(manifest, person = null) {
    if (person !== null && person !== this.person)
      throw new ParameterError(
        `the store belongs to '${this.person}', not to '${person}'; every person needs a store of their own`,
      );
    if (!this.accepts.includes(manifest.protocol))
      throw new ManifestError(
        `this is a ${manifest.protocol} run and the device accepts ${this.accepts.join(", ")}; nothing was sent`,
      );
    if (manifest.protocol !== "local" && !manifest.sealed && !this.unsealed)
      throw new ManifestError(
        "the run names no analyzer's key: whoever carries the messages could read them; nothing was sent",
      );
  }

  async #runs() {
    const runs = await this.storage.runs();
    const whole = runs.every((run, place) => run?.place === place && typeof run.id === "string");
    if (!whole) throw new ParameterError(EMPTIED);
    return runs;
  }

  /** Epsilon and delta of all runs so far. */
  async spent() {
    return total(await this.#runs());
  }

  /** The messages kept for a run; null if none were drawn. */
  async kept(manifest) {
    return keptIn(await this.#runs(), manifest);
  }

  /** Raises if a run would take the person's total above its limit. */
  afford(manifest, before) {
    for (const [name, cost, used, most] of [
      ["epsilon", manifest.epsilon, before.epsilon, this.epsilon],
      ["delta", manifest.delta, before.delta, this.delta],
    ])
      if (used.plus(cost).compare(most) > 0)
        throw new BudgetExhausted(
          `the run asks for ${name} = ${cost}; ${used} of your total ${most} are spent. Nothing was sent`,
        );
  }

  /** The messages of a run: drawn and charged once, kept before this returns, the same bytes ever after. */
  async messages(manifest, draw, person = null) {
    this.agrees(manifest, person);
    for (let tries = 0; tries < TRIES; tries++) {
      const runs = await this.#runs();
      const kept = keptIn(runs, manifest);
      if (kept) return { messages: kept, again: true };
      this.afford(manifest, total(runs));
      const messages = draw();
      const entry = {
        place: runs.length,
        id: hex(manifest.run),
        epsilon: `${manifest.epsilon}`,
        delta: `${manifest.delta}`,
        messages: messages.map(hex),
        digest: sealOf(manifest.run, messages),
      };
      if (await this.storage.add(runs.length, entry)) return { messages, again: false };
    }
    throw new ParameterError("the store is busy; nothing was sent");
  }
}

function total(runs) {
  const add = (key) => runs.reduce((sum, run) => sum.plus(exact(run[key])), ratio(0));
  return { epsilon: add("epsilon"), delta: add("delta") };
}

function keptIn(runs, manifest) {
  const found = runs.find((run) => run.id === hex(manifest.run));
  if (!found) return null;
  const messages = (found.messages ?? []).map(unhex);
  // A part of the messages would carry a part of the noise.
  if (messages.some((message) => !message) || sealOf(manifest.run, messages) !== found.digest)
    throw new ParameterError(
      "the messages kept in the store are damaged; nothing was sent, and no others may be drawn for this run",
    );
  return messages;
}
