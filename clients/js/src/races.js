// Races: every rule runs with a public clock at a rate set by its errors; the first one wins (docs/wire.md, section 4).

import { bitLength, compare } from "./bytes.js";
import { clock, derive, ilog2, nodeWords, wordNamed, wordsIndexed } from "./words.js";

export const NEVER = 2 ** 31; // the score of a leaf that does not run: above every number of records
export const MAX_INDEXED = 4096;

const penalty = (score, m, Gamma) => (Gamma * BigInt(score)) / BigInt(m);
const bitsOf = (size) => Math.max(1, bitLength(BigInt(size) - 1n));
const less = (a, b) => {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return a[i] < b[i];
  return false;
};

/** One score per leaf, with the minima over aligned runs of 2^j leaves. */
export class Leaves {
  constructor(scores, component = 0) {
    Object.assign(this, { component, size: BigInt(scores.length), bits: bitsOf(scores.length), scores });
    this.rows = [Int32Array.from(scores, (score) => Math.min(score, NEVER - 1))];
    while (this.rows.at(-1).length > 1) {
      const row = this.rows.at(-1);
      const next = new Int32Array((row.length + 1) >> 1);
      for (let i = 0; i < next.length; i++) {
        next[i] = 2 * i + 1 < row.length ? Math.min(row[2 * i], row[2 * i + 1]) : row[2 * i];
      }
      this.rows.push(next);
    }
  }
  /** The least score below a node, and whether all leaves below have it. */
  least(level, prefix) {
    const height = this.bits - level;
    const row = this.rows[Math.min(height, this.rows.length - 1)];
    const place = Number(prefix);
    const found = place < row.length ? row[place] : NEVER - 1;
    return [found === NEVER - 1 ? null : found, height === 0];
  }
}

/** Blocks of leaves with equal score: block i starts at leaf starts[i] (BigInt) and ends before the next one. */
export class Blocks {
  constructor(starts, scores, size, component = 0) {
    Object.assign(this, { component, size, bits: bitsOf(size), starts, scores });
    this.rows = [Float64Array.from(scores)]; // integers; a power of two of consecutive blocks in each row
    for (let step = 1; 2 * step <= scores.length; step *= 2) {
      const row = this.rows.at(-1);
      this.rows.push(row.slice(0, row.length - step).map((value, i) => Math.min(value, row[i + step])));
    }
  }
  /** How many blocks start at or before a leaf. */
  begun(leaf) {
    let [low, high] = [0, this.starts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.starts[middle] <= leaf) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  least(level, prefix) {
    const height = BigInt(this.bits - level);
    const low = prefix << height;
    if (low >= this.size) return [null, true];
    const end = (prefix + 1n) << height;
    const i = this.begun(low) - 1;
    const j = this.begun((end < this.size ? end : this.size) - 1n);
    const power = 31 - Math.clz32(j - i);
    const row = this.rows[power];
    // A node that reaches beyond the last leaf is not flat: its first clock may belong to a leaf that does not run.
    return [Math.min(row[i], row[j - 2 ** power]), j - i === 1 && end <= this.size];
  }
}

class Heap {
  items = [];
  push(item) {
    const items = this.items;
    let at = items.push(item) - 1;
    while (at && less(item, items[(at - 1) >> 1])) {
      items[at] = items[(at - 1) >> 1];
      at = (at - 1) >> 1;
    }
    items[at] = item;
  }
  pop() {
    const items = this.items;
    const [first, last] = [items[0], items.pop()];
    if (!items.length) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && less(items[child + 1], items[child])) child++;
      if (!less(items[child], last)) break;
      items[at] = items[child];
      at = child;
    }
    items[at] = last;
    return first;
  }
}

/** The winner of a dyadic race, [cost, clock, component, leaf], by best-first search; null if nothing runs. */
export function raceDyadic(key, parts, m, Gamma) {
  const keys = parts.map((part) => derive(key, "component", part.component));
  const heap = new Heap();
  const push = (part, level, prefix, minimum) => {
    const [least, flat] = parts[part].least(level, prefix);
    if (least === null) return;
    heap.push([(ilog2(minimum) >> 16n) + penalty(least, m, Gamma), minimum, part, level, prefix, flat]);
  };
  parts.forEach((part, i) => push(i, 0, 0n, clock(nodeWords(keys[i], 255, 0n)[0]) << BigInt(64 - part.bits)));
  let best = null;
  while (heap.items.length) {
    const [cost, minimum, part, level, prefix, flat] = heap.pop();
    if (best && less(best.slice(0, 2), [cost, minimum])) break;
    const bits = parts[part].bits;
    if (flat) {
      let leaf = prefix; // inside a block every other leaf has a later clock and at least the same cost
      for (let deeper = level; deeper < bits; deeper++) leaf = 2n * leaf + (nodeWords(keys[part], deeper, leaf)[0] & 1n);
      const found = [cost, minimum, parts[part].component, leaf];
      if (!best || less(found, best)) best = found;
      continue;
    }
    const [w, v] = nodeWords(keys[part], level, prefix);
    const later = minimum + (clock(v) << BigInt(64 - bits + level + 1));
    push(part, level + 1, 2n * prefix, w & 1n ? later : minimum);
    push(part, level + 1, 2n * prefix + 1n, w & 1n ? minimum : later);
  }
  return best;
}

/** The dyadic race of scores in one list, null for those that do not run; the winning index. */
export function raceScores(key, scores, m, Gamma) {
  const found = raceDyadic(key, [new Leaves(scores.map((score) => score ?? NEVER - 1))], m, Gamma);
  return found && Number(found[3]);
}

/** The flat race of at most 4096 rules by number. */
export function raceIndexed(key, scores, m, Gamma) {
  const words = wordsIndexed(key);
  let best = null;
  scores.forEach((score, i) => {
    const t = clock(words.next().value);
    const entry = [(ilog2(t) >> 16n) + penalty(score, m, Gamma), t, i];
    if (!best || less(entry, best)) best = entry;
  });
  return best[2];
}

/** The flat race among names: a Map from small hexadecimal digits to [bytes, score]. */
export function raceNamed(key, running, m, Gamma) {
  let best = null;
  for (const [text, [name, score]] of [...running].sort((a, b) => compare(a[0], b[0]))) {
    const t = clock(wordNamed(key, name));
    const entry = [(ilog2(t) >> 16n) + penalty(score, m, Gamma), t, text];
    if (!best || less(entry, best)) best = entry;
  }
  return best && running.get(best[2])[0];
}
