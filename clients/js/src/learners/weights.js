// Linear rules and naive Bayes: one canonical form for every function, packed (docs/wire.md, sections 5 and 6).

import { bitLength, floorDiv, floorNumber, ParameterError } from "../bytes.js";
import { Answers, ilog2 } from "../words.js";
import { integer, Numbers } from "./universe.js";

const MAX_POINTS = 1n << 16n;
const WORK = 1n << 20n;
const product = (sizes) => sizes.reduce((a, b) => a * b, 1n);
const sum = (list) => list.reduce((a, b) => a + b, 0n);
const magnitude = (w) => w.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
const dot = (row, w) => {
  let total = 0;
  for (let j = 0; j < row.length; j++) total += row[j] * w[j]; // integers below 2^53: see `separator`
  return total;
};

/** The largest weight: where the domain can be listed few do, else a direction is rounded to them. */
export const scaleOf = (sizes) => (product(sizes) <= MAX_POINTS ? 15n : 255n);

/** Every point of the domain (codes, or an indicator of every value but the first), if there are few. */
function domain(sizes, indicators) {
  const width = indicators ? sum(sizes.map((size) => size - 1n)) : BigInt(sizes.length);
  if (product(sizes) > MAX_POINTS || product(sizes) * (width + 1n) > WORK) return null;
  let rows = [[]];
  for (const size of sizes) {
    const codes = Array.from({ length: Number(size) }, (_, v) => v);
    const columns = indicators ? codes.map((v) => codes.slice(1).map((other) => Number(other === v))) : codes.map((v) => [v]);
    rows = rows.flatMap((row) => columns.map((part) => [...row, ...part]));
  }
  return rows;
}

/** The constant with which these weights are the function; null if there is none. */
function constantOf(points, weights, truth) {
  let [least, top] = [Infinity, -Infinity];
  for (let i = 0; i < points.length; i++) {
    const score = dot(points[i], weights);
    if (truth[i]) least = Math.min(least, score);
    else top = Math.max(top, score);
  }
  if (top === -Infinity) return 1 - least;
  return least > top ? -top : null;
}

// Weights of a function that depend on nothing else. Coordinates are below 2^16 in size, the start is at most 64 and a
// round adds at most 8 2^16 + 1, so after 60 rounds weights are below 2^25; points times columns + 1 are at most 2^20,
// so every sum stays below 2^53.
function separator(points, truth) {
  const high = points[0].map((_, j) => points.reduce((most, row) => Math.max(most, row[j]), 0));
  const signed = points.map((row, i) => {
    const sign = truth[i] ? 1 : -1;
    return [...row.map((value, j) => sign * (2 * value - high[j])), sign];
  });
  const total = (rows) => {
    const out = new Array(high.length + 1).fill(0);
    for (const row of rows) for (let j = 0; j < row.length; j++) out[j] += row[j];
    return out;
  };
  let w = total(signed);
  const large = Math.max(magnitude(w), 1);
  w = w.map((value) => floorNumber(64 * value, large));
  for (let round = 0; round < 60; round++) {
    if (constantOf(points, w.slice(0, -1), truth) !== null) return w.slice(0, -1);
    const wrong = signed.filter((row) => dot(row, w) <= 0);
    const step = total(wrong);
    w = w.map((value, j) => value + floorNumber(8 * step[j] + Math.floor(wrong.length / 2), Math.max(wrong.length, 1)));
  }
  return null;
}

/** Weights up to `most` and a constant of a linear function given by its values; null if none were found. */
function canonicalWeights(points, truth, most) {
  const positive = truth.filter(Boolean).length;
  if (positive === 0 || positive === truth.length) return [points[0].map(() => 0n), BigInt(positive > 0)];
  const found = separator(points, truth);
  if (!found) return null;
  const large = magnitude(found);
  for (let scale = 1; scale <= most; scale++) {
    const rounded = found.map((w) => floorNumber(2 * w * scale + large, 2 * large));
    const constant = constantOf(points, rounded, truth);
    if (constant !== null) return [rounded.map(BigInt), BigInt(constant)];
  }
  return null;
}

/** Rounded so that the largest weight is `most`. */
function direction(weights, constant, most) {
  const large = weights.reduce((found, w) => (w > found ? w : -w > found ? -w : found), 0n);
  if (large === 0n) return [weights, BigInt(constant > 0n)];
  const near = (w) => floorDiv(2n * w * most + large, 2n * large);
  return [weights.map(near), near(constant)];
}

/** A learner of linear rules whose items are functions: a digit for every weight and one for the constant. */
export class CanonicalWeights {
  constructor(inner, sizes, most, bayes = false) {
    integer("scale", most, 1n, 1n << 20n);
    Object.assign(this, { inner, sizes, most, bayes });
    const values = sum(sizes.map((size) => size - 1n));
    this.width = bayes ? Number(values) : sizes.length;
    this.edge = most * (bayes ? BigInt(sizes.length) : values);
    if (this.width * bitLength(2n * most) >= 1 << 19)
      throw new ParameterError(`${this.width} weights up to ${most} are more than an item holds; take fewer values`);
    this.universe = new Numbers((2n * most + 1n) ** BigInt(this.width) * (2n * this.edge + 2n));
    this.work = [inner.work[0] + (1 << 21), inner.work[1]];
  }
  item(records, seed) {
    return this.pack(...this.form(...this.inner.learn(records, seed)));
  }
  /** Weights and constant of the same function, or of its direction. */
  form(weights, constant) {
    const points = domain(this.sizes, this.bayes);
    if (points) {
      const truth = points.map((row) => row.reduce((total, value, j) => total + BigInt(value) * weights[j], constant) > 0n);
      const found = canonicalWeights(points, truth, Number(this.most));
      if (found) return found;
    }
    return direction(weights, constant, this.most);
  }
  pack(weights, constant) {
    const clipped = constant < -this.edge ? -this.edge : constant > this.edge + 1n ? this.edge + 1n : constant;
    let out = clipped + this.edge;
    for (let j = weights.length - 1; j >= 0; j--) out = out * (2n * this.most + 1n) + weights[j] + this.most;
    return this.universe.item(out);
  }
  rule(item) {
    let rest = this.universe.number(item);
    const weights = [];
    for (let j = 0; j < this.width; j++, rest /= 2n * this.most + 1n) weights.push((rest % (2n * this.most + 1n)) - this.most);
    return { kind: this.bayes ? "scores" : "weights", weights, constant: rest - this.edge };
  }
}

/** Naive Bayes from rounded shares; weights are integer logarithms of their ratios. */
export class Bayes {
  constructor(sizes, grid) {
    for (const size of sizes) integer("a domain size", size, 1n, 1n << 16n);
    integer("grid", grid, 1n, (1n << 31n) - 1n);
    Object.assign(this, { sizes, grid });
    const queries = 1 + 2 * Number(sum(sizes));
    this.work = [8 * queries, Math.floor(queries / 64) + 1];
  }
  learn({ x, y }, seed) {
    const answers = new Answers(seed, "bayes", this.grid, y.length);
    const ask = (count) => {
      const found = answers.ask(count);
      return found > 0n ? found : 0n;
    };
    const weight = (one, zero) => ilog2(one + 1n) - ilog2(zero + 1n);
    const first = ask(y.reduce((total, mark) => total + mark, 0));
    const prior = weight(first, this.grid > first ? this.grid - first : 0n);
    let constant = -BigInt(this.sizes.length - 1) * prior;
    const weights = [];
    this.sizes.forEach((size, j) => {
      const counts = Array.from({ length: Number(size) }, () => [0, 0]);
      x.forEach((row, i) => counts[Number(row[j])][y[i]]++);
      const found = counts.map(([zeros, ones]) => {
        const none = ask(zeros);
        return weight(ask(ones), none);
      });
      constant += found[0];
      weights.push(...found.slice(1).map((w) => w - found[0]));
    });
    return [weights, constant];
  }
}

