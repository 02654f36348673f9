// A person's own store on the device: what all runs together may cost, whose runs are taken, and the messages already
// drawn.
//
// A run is charged and its messages are kept in one durable step, before anything is sent; what would exceed the total is
// refused before the records are read. The whole store is one state with a number, and a write replaces state n by state
// n + 1 or does nothing: of two programs that write at the same time one finds the number taken, reads again, and throws
// its draw away unsent. Nothing can be missing from a state, so a store that was emptied is damaged or is not there; either
// is an error, and only `Device.create` makes a store.
//
// A storage has: read(), which gives [number, state], or null where there never was a store, or throws where there was one;
// and write(number, state), which answers false if there is a state of that number or a later one already. `stores/` has
// one for browsers, one for files, one in memory.

import { BudgetExhausted, concat, hex, ManifestError, ParameterError, same, unhex } from "./bytes.js";
import { exact, ratio } from "./exact.js";
import { fingerprint, soundKey } from "./signature.js";
import { digest } from "./words.js";

export const ACCEPTED = ["local", "shuffle"];
const FORMAT = 2;
const MODELS = ["local", "shuffle", "central"];
const EMPTIED = "the store was emptied or damaged; restore it: another draw would be a second release";
const TRIES = 64;

const sealOf = (run, messages) => hex(digest(concat(run, ...messages)));

async function readOf(storage) {
  try {
    return await storage.read();
  } catch (error) {
    throw error instanceof ParameterError ? error : new ParameterError(EMPTIED);
  }
}

/** The state of a store; an error where there is none, or where there was one. */
async function stateOf(storage) {
  const found = await readOf(storage);
  if (found === null)
    throw new ParameterError(
      "there is no store here; make one. If there was one, restore it: a message drawn anew would be a second release",
    );
  const [number, state] = found;
  if (state?.v !== FORMAT || !Array.isArray(state.runs) || !Array.isArray(state.coordinators))
    throw new ParameterError(EMPTIED);
  return { number, state };
}

export class Device {
  constructor(storage, state) {
    Object.assign(this, { storage, person: state.person, accepts: state.accepts, unsealed: state.unsealed });
    this.epsilon = exact(state.epsilon);
    this.delta = exact(state.delta);
    this.coordinators = state.coordinators.map((key) => soundKey(unhex(key)));
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
   * @param {Uint8Array[]} coordinators public keys of those who may ask; `trust` adds one later
   */
  static async create(storage, { person, epsilon, delta = "0", accepts = ACCEPTED, unsealed = false, coordinators = [] }) {
    const [total, small] = [exact(epsilon), exact(delta)];
    if (total.top <= 0n || small.top < 0n || small.compare(ratio(1)) >= 0)
      throw new ParameterError("a store's total needs epsilon > 0 and 0 <= delta < 1");
    if (!accepts.length || accepts.some((model) => !MODELS.includes(model)))
      throw new ParameterError(`a device accepts local, shuffle or central; got ${accepts.join(", ") || "nothing"}`);
    if (typeof person !== "string" || !person || person.length > 100)
      throw new ParameterError("a store belongs to one person: give a name of 1 to 100 characters");
    const pinned = [...new Set(coordinators.map((key) => hex(soundKey(key))))].sort();
    const owner = { person, epsilon: `${total}`, delta: `${small}`, accepts: [...accepts], unsealed };
    const state = { v: FORMAT, ...owner, coordinators: pinned, runs: [] };
    if (!(await storage.write(0, state)))
      throw new ParameterError("there is a store already, and a total is never changed; choose another place");
    return new Device(storage, state);
  }

  /** The store of a place; a missing, emptied or damaged one is an error, never a new beginning. */
  static async open(storage) {
    return new Device(storage, (await stateOf(storage)).state);
  }

  /** The store of a place, or null where there never was one: for asking a person whether to make it. */
  static async find(storage) {
    const found = await readOf(storage);
    return found === null ? null : Device.open(storage);
  }

  /** Replace the state by what `change` makes of it (null: leave it); what `change` gave beside it. */
  async #swap(change) {
    for (let tries = 0; tries < TRIES; tries++) {
      const { number, state } = await stateOf(this.storage);
      const [next, result] = change(state);
      if (next === null || (await this.storage.write(number + 1, next))) return result;
    }
    throw new ParameterError("the store is busy; nothing was sent");
  }

  /** Take runs of this coordinator, too; the total stays what it is. */
  async trust(coordinator) {
    const key = hex(soundKey(coordinator));
    await this.#swap((state) => [
      state.coordinators.includes(key) ? null : { ...state, coordinators: [...state.coordinators, key].sort() },
      null,
    ]);
    return Device.open(this.storage);
  }

  /** Raises unless this person takes part in such runs. */
  agrees(manifest, person = null) {
    if (person !== null && person !== this.person)
      throw new ParameterError(
        `the store belongs to '${this.person}', not to '${person}'; every person needs a store of their own`,
      );
    if (manifest.coordinator === null)
      throw new ManifestError(
        "the manifest is not signed: whoever handed it over could have put in a key of their own; ask the coordinator " +
          "for the signed one. Nothing was drawn or sent",
      );
    if (!this.coordinators.some((key) => same(key, manifest.coordinator)))
      throw new ManifestError(
        `the manifest is signed with the key ${fingerprint(manifest.coordinator)}, and this store trusts ` +
          `${this.coordinators.map(fingerprint).join(", ") || "none"}; if the coordinator told you this key themselves, ` +
          "add it. Nothing was drawn or sent",
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

/** Epsilon and delta of all runs so far. */
  async spent() {
    return total((await stateOf(this.storage)).state.runs);
  }

  /** The messages kept for a run; null if none were drawn. */
  async kept(manifest) {
    return keptIn((await stateOf(this.storage)).state.runs, manifest);
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
    return this.#swap((state) => {
      const kept = keptIn(state.runs, manifest);
      if (kept) return [null, { messages: kept, again: true }];
      this.afford(manifest, total(state.runs));
      const messages = draw();
      const entry = {
        id: hex(manifest.run),
        coordinator: hex(manifest.coordinator),
        epsilon: `${manifest.epsilon}`,
        delta: `${manifest.delta}`,
        messages: messages.map(hex),
        digest: sealOf(manifest.run, messages),
      };
      return [{ ...state, runs: [...state.runs, entry] }, { messages, again: false }];
    });
  }
}

function total(runs) {
  const add = (key) => runs.reduce((sum, run) => sum.plus(exact(run[key])), ratio(0));
  return { epsilon: add("epsilon"), delta: add("delta") };
}

function keptIn(runs, manifest) {
  const found = runs.find((run) => run.id === hex(manifest.run));
  if (!found) return null;
  if (found.coordinator !== hex(manifest.coordinator))
    // Two coordinators may sign the same bytes: consent was given to one.
    throw new ManifestError(
      `this run was answered for the coordinator ${fingerprint(unhex(found.coordinator))}; the same run signed by another ` +
        "one is not. Nothing was sent",
    );
  const messages = (found.messages ?? []).map(unhex);
  // A part of the messages would carry a part of the noise.
  if (messages.some((message) => !message) || sealOf(manifest.run, messages) !== found.digest)
    throw new ParameterError(
      "the messages kept in the store are damaged; nothing was sent, and no others may be drawn for this run",
    );
  return messages;
}
