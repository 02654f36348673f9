// Classes of rules that race: the errors of all of them on a person's records (docs/wire.md, section 5).

import { compare, floorDiv, little, ParameterError, unhex } from "../bytes.js";
import { Blocks, Leaves, MAX_INDEXED, raceDyadic, raceIndexed } from "../races.js";
import { derive, wordNamed } from "../words.js";
import { integer, Numbers } from "./universe.js";

const MOST = 1n << 64n;
const smaller = (a, b) => (a < b ? a : b);
const ones = (y) => y.reduce((total, mark) => total + mark, 0);

/** Cuts of ordered columns: component 2 j says 1 from the cut on, component 2 j + 1 before it. */
export class Cuts {
  constructor(domains, directions = ["above", "below"]) {
    Object.assign(this, { domains, directions });
    this.sizes = domains.flatMap((size) => directions.map(() => smaller(size + 1n, MOST)));
  }
  components({ x, y }) {
    return this.domains.flatMap((size, j) => {
      const order = y.map((_, i) => i).sort((a, b) => compare(x[a][j], x[b][j]));
      const [starts, errors] = [[0n], [y.length - ones(y)]];
      let now = errors[0];
      order.forEach((i, place) => {
        now += 2 * y[i] - 1; // past a record labelled 1 a cut errs once more, past one labelled 0 once less
        if (place + 1 < order.length && x[order[place + 1]][j] === x[i][j]) return;
        if (x[i][j] + 1n < smaller(size + 1n, MOST)) {
          starts.push(x[i][j] + 1n);
          errors.push(now);
        }
      });
      return this.directions.map((direction) => {
        const below = direction === "below";
        const scores = below ? errors.map((count) => y.length - count) : errors;
        return new Blocks(starts, scores, smaller(size + 1n, MOST), 2 * j + Number(below));
      });
    });
  }
  /** What a number stands for: column, cut, and whether it says 1 from there on. */
  rule(place) {
    let component = 0;
    for (; place >= this.sizes[component]; component++) place -= this.sizes[component];
    const width = this.directions.length;
    return {
      kind: "cut",
      column: Math.floor(component / width),
      cut: place,
      above: this.directions[component % width] === "above",
    };
  }
  says = (rule, row) => Number(row[rule.column] >= rule.cut === rule.above);
}

/** What naming each value repairs and spoils. */
function gains({ x, y }) {
  const out = new Map();
  x.forEach((row, i) => out.set(row[0], (out.get(row[0]) ?? 0) + 1 - 2 * y[i]));
  return [...out].sort((a, b) => compare(a[0], b[0]));
}

/** "The value is v". */
export class Points {
  constructor(size) {
    this.domains = [size];
    this.sizes = [size];
  }
  components(records) {
    const positive = ones(records.y);
    const [starts, scores] = [[0n], [positive]];
    for (const [point, change] of gains(records)) {
      if (starts.at(-1) === point) scores[scores.length - 1] = positive + change;
      else {
        starts.push(point);
        scores.push(positive + change);
      }
      if (point + 1n < this.sizes[0]) {
        starts.push(point + 1n);
        scores.push(positive);
      }
    }
    return [new Blocks(starts, scores, this.sizes[0])];
  }
  rule = (place) => ({ kind: "point", point: place });
  says = (rule, row) => Number(row[0] === rule.point);
}

/** Runs of whole cells of one column; number 0 is the empty one, then by first cell, then by last. */
export class Intervals {
  constructor(size, cells) {
    integer("size", size, 1n, 1n << 53n);
    integer("cells", cells, 1n, size);
    if (cells > 1413n) throw new ParameterError(`${cells} cells have more than a million intervals; use at most 1413`);
    Object.assign(this, { domains: [size], size, cells: Number(cells) });
    this.sizes = [(cells * (cells + 1n)) / 2n + 1n];
  }
  edge = (cell) => -floorDiv(-BigInt(cell) * this.size, BigInt(this.cells));
  components({ x, y }) {
    const prefix = new Array(this.cells + 1).fill(0);
    x.forEach((row, i) => {
      let [low, high] = [0, this.cells - 1]; // the last cell whose first value is at most this one
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (this.edge(middle) <= row[0]) low = middle;
        else high = middle - 1;
      }
      prefix[low + 1] += 1 - 2 * y[i];
    });
    for (let c = 0; c < this.cells; c++) prefix[c + 1] += prefix[c];
    const positive = ones(y);
    const errors = [positive];
    for (let first = 0; first < this.cells; first++)
      for (let last = first; last < this.cells; last++) errors.push(positive + prefix[last + 1] - prefix[first]);
    return [new Leaves(errors)];
  }
  rule(place) {
    if (place === 0n) return { kind: "run", low: 0n, high: 0n };
    let [first, rest] = [0, Number(place) - 1];
    while (rest >= this.cells - first) rest -= this.cells - first++;
    return { kind: "run", low: this.edge(first), high: this.edge(first + rest + 1) };
  }
  says = (rule, row) => Number(row[0] >= rule.low && row[0] < rule.high);
}

/** Buckets of public hash functions; the last rule says 1 never. */
export class HashedPoints {
  constructor(size, functions, buckets, coins) {
    integer("functions", functions, 1n, 64n);
    integer("buckets", buckets, 2n, 1n << 20n);
    const read = unhex(coins);
    if (!read || read.length !== 32) throw new ParameterError("coins must be 64 small hexadecimal digits");
    if (functions * buckets >= 1n << 20n)
      throw new ParameterError(`${functions * buckets} rules are more than ${1 << 20}; take fewer buckets`);
    Object.assign(this, { domains: [size], buckets, functions: Number(functions), coins: read });
    this.sizes = [functions * buckets + 1n];
  }
  components(records) {
    const scores = new Array(Number(this.sizes[0])).fill(ones(records.y));
    const found = gains(records);
    for (let j = 0; j < this.functions; j++) {
      const key = derive(this.coins, "hash", j);
      for (const [value, change] of found) {
        const bucket = (wordNamed(key, little(value, 8)) * this.buckets) >> 64n;
        scores[j * Number(this.buckets) + Number(bucket)] += change;
      }
    }
    return [new Leaves(scores)];
  }
  rule(place) {
    const never = place === this.sizes[0] - 1n;
    return { kind: "hashed", function: never ? null : place / this.buckets, bucket: place % this.buckets };
  }
}

/** All parities of up to 22 columns; bit j of a number says whether column j takes part. */
export class Parities {
  constructor(width) {
    if (width > 22)
      throw new ParameterError(`parities of ${width} columns are 2^${width} rules; solve for one with learner='solve'`);
    Object.assign(this, { domains: new Array(width).fill(2n), width });
    this.sizes = [1n << BigInt(width)];
  }
  components({ x, y }) {
    const spectrum = new Int32Array(2 ** this.width);
    x.forEach((row, i) => {
      spectrum[row.reduce((index, bit, j) => index + Number(bit) * 2 ** j, 0)] += 1 - 2 * y[i];
    });
    for (let half = 1; half < spectrum.length; half *= 2)
      for (let base = 0; base < spectrum.length; base += 2 * half)
        for (let i = base; i < base + half; i++) {
          const [a, b] = [spectrum[i], spectrum[i + half]];
          spectrum[i] = a + b;
          spectrum[i + half] = a - b;
        }
    return [new Leaves(spectrum.map((value) => (y.length - value) / 2))];
  }
  rule = (place) => ({ kind: "parity", mask: place });
  says(rule, row) {
    return row.reduce((bit, value, j) => bit ^ (Number(value) & Number((rule.mask >> BigInt(j)) & 1n)), 0);
  }
}

/** The winner of a race over all rules of a class. */
export class RaceLearner {
  constructor(scores, { Gamma, race = "dyadic" }) {
    integer("Gamma", Gamma, 0n, (1n << 62n) - 1n);
    Object.assign(this, { scores, Gamma, race });
    this.universe = new Numbers(scores.sizes.reduce((a, b) => a + b, 0n));
    if (race !== "dyadic" && race !== "indexed")
      throw new ParameterError("race must be 'dyadic' or 'indexed'");
    const size = this.universe.size;
    if (race === "indexed" && size > MAX_INDEXED)
      throw new ParameterError(`a flat race has at most ${MAX_INDEXED} rules, got ${size}; use race='dyadic'`);
    const components = scores.sizes.length;
    // Parities are transformed as a whole; cuts and points are searched from the best node on.
    const listed =
      size <= 1n << 22n && components === 1 ? Math.floor((Number(size) * size.toString(2).length) / 64) : 0;
    this.work = [4096 + 256 * components + listed, 8 * components];
  }
  item(records, seed) {
    const parts = this.scores.components(records);
    const m = records.y.length;
    if (this.race === "indexed")
      return this.universe.item(raceIndexed(derive(seed, "race"), parts.flatMap(dense), m, this.Gamma));
    const [, , component, leaf] = raceDyadic(derive(seed, "tree"), parts, m, this.Gamma);
    const place = parts.findIndex((part) => part.component === component);
    return this.universe.item(this.scores.sizes.slice(0, place).reduce((a, b) => a + b, leaf));
  }
  rule = (item) => this.scores.rule(this.universe.number(item));
}

/** One score per leaf, for small classes. */
function dense(part) {
  if (!part.starts) return [...part.scores];
  const ends = [...part.starts.slice(1), part.size];
  return part.starts.flatMap((start, i) => new Array(Number(ends[i] - start)).fill(part.scores[i]));
}
