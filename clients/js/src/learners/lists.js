// Conjunctions, disjunctions and decision lists over yes/no columns (docs/wire.md, section 5).

import { concat, little, ParameterError } from "../bytes.js";
import { raceScores } from "../races.js";
import { Answers, derive } from "../words.js";
import { Bits, integer, PackedLists } from "./universe.js";

const MAX_TESTS = 4096n;

/** Every literal of a record: x_j is number j, not x_j is number d + j. */
const literals = (row) => [...row.map((bit) => bit === 1n), ...row.map((bit) => bit !== 1n)];

/** Conjunctions (every), or disjunctions: literals hardly ever 0 on positive records, with all negated. */
export class Junctions {
  constructor(d, every, { keep, grid }) {
    integer("grid", grid, 1n);
    integer("keep_at_most", keep, 0n);
    integer("d", BigInt(d), 1n, 1n << 15n);
    Object.assign(this, { d, every, keep, grid });
    this.universe = new Bits(2 * d);
    this.work = [16 * d, Math.floor((2 * d) / 64) + 1];
  }
  item({ x, y }, seed) {
    const answers = new Answers(seed, "conj", this.grid, y.length);
    const counted = x.filter((_, i) => (y[i] === 1) === this.every).map(literals);
    let mask = 0n;
    for (let j = 0; j < 2 * this.d; j++) {
      const missed = counted.filter((said) => said[j] !== this.every).length;
      if (answers.ask(missed) <= this.keep) mask |= 1n << BigInt(j);
    }
    return little(mask, this.universe.longest);
  }
  rule = (item) => ({ kind: this.every ? "conjunction" : "disjunction", mask: this.universe.number(item), d: this.d });
}

/** How many conjunctions of 1..k literals on distinct columns there are, and TRUE. */
export function countTests(d, k) {
  let [total, choose] = [1n, 1n];
  for (let r = 1n; r <= k && r <= BigInt(d); r++) {
    choose = (choose * (BigInt(d) - r + 1n)) / r;
    total += choose << r;
    if (total > 1n << 64n) break;
  }
  return total;
}

/** The tests, by size and then as increasing lists of literals, TRUE last. */
export function conjunctionTests(d, k) {
  const out = [];
  const extend = (test, from, left) => {
    if (left === 0) return void out.push(test);
    for (let j = from; j < 2 * d; j++)
      if (!test.some((other) => other % d === j % d)) extend([...test, j], j + 1, left - 1);
  };
  for (let r = 1; r <= Math.min(k, d); r++) extend([], 0, r);
  return [...out, []];
}

/** The one way to write a list of single literals; 2 d stands for TRUE. */
export function canonicalList(d, rules, last) {
  const [live, fixed] = [[], new Set()];
  const opposite = (literal) => (literal + d) % (2 * d);
  for (const [literal, label] of rules) {
    if (literal === 2 * d || fixed.has(opposite(literal))) {
      last = label; // always true here: the rest is dead
      break;
    }
    if (fixed.has(literal)) continue;
    live.push([literal, label]);
    fixed.add(literal);
  }
  while (live.length && live.at(-1)[1] === last) live.pop();
  let runs = [];
  for (const rule of live) {
    if (runs.length && runs.at(-1)[0][1] === rule[1]) runs.at(-1).push(rule);
    else runs.push([rule]);
  }
  if (runs.length && runs.at(-1).length === 1) {
    const [[literal, label]] = runs.at(-1);
    if (runs.length > 1) {
      runs.pop();
      runs.at(-1).push([opposite(literal), 1 - label]);
      last = label;
    } else if (literal >= d) {
      runs = [[[opposite(literal), 1 - label]]];
      last = label;
    }
  }
  return [runs.flatMap((run) => run.sort((a, b) => a[0] - b[0])), last];
}

/** Without repeated tests, what follows TRUE (the last test), and last rules that say the default. */
function shortened(tests, rules, last) {
  const [live, seen] = [[], new Set()];
  for (const [test, label] of rules) {
    if (test === tests - 1) {
      last = label;
      break;
    }
    if (!seen.has(test)) live.push([test, label]);
    seen.add(test);
  }
  while (live.length && live.at(-1)[1] === last) live.pop();
  return [live, last];
}

class Lists {
  constructor(d, k, rules) {
    integer("k", k, 1n);
    this.count = countTests(d, k);
    if (this.count > MAX_TESTS)
      throw new ParameterError(`${this.count} tests are more than ${MAX_TESTS}; lower k or the number of columns`);
    Object.assign(this, { d, k, rules: Number(rules) });
    this.universe = new PackedLists(Number(this.count), Number(rules));
  }
  get tests() {
    return conjunctionTests(this.d, Number(this.k));
  }
  /** Which tests hold on each record. */
  holds(x) {
    const tests = this.tests;
    return x.map((row) => {
      const said = literals(row);
      return tests.map((test) => test.every((literal) => said[literal]));
    });
  }
  item(records, seed) {
    const [rules, last] = this.learn(records, seed);
    const [form, end] =
      this.universe.tests === 2 * this.d + 1
        ? canonicalList(this.d, rules, last)
        : shortened(this.universe.tests, rules, last);
    return concat(...form.map(([test, label]) => concat(little(test, 2), Uint8Array.of(label))), Uint8Array.of(end));
  }
  rule(item) {
    const [rules, last] = this.universe.read(item);
    const tests = this.tests;
    return { kind: "list", d: this.d, rules: rules.map(([test, label]) => [tests[test], label]), last };
  }
}

/** One race per stage over all unused tests and labels, and a last one for the label of the rest. */
export class StagewiseLists extends Lists {
  constructor(d, { Gamma, k, stages, weight }) {
    super(d, k, integer("stages", stages, 1n, countTests(d, k)));
    integer("Gamma", Gamma, 0n, (1n << 62n) - 1n);
    integer("weight", weight, 0n, 1n << 20n);
    Object.assign(this, { Gamma, weight: Number(weight) });
    const size = Number(this.count) * this.rules;
    this.work = [64 * size + (1 << 21), Math.floor(size / 64) + 1];
  }
  learn({ x, y }, seed) {
    const [key, m, holds] = [derive(seed, "stages"), y.length, this.holds(x)];
    const tests = Number(this.count) - 1; // TRUE does not run
    const [rules, used] = [[], new Set()];
    let left = y.map((_, i) => i);
    for (let stage = 0; stage < this.rules; stage++) {
      const hits = Array.from({ length: 2 * tests }, () => 0);
      for (const i of left) for (let t = 0; t < tests; t++) if (holds[i][t]) hits[2 * t + y[i]]++;
      const scores = hits.map((hit, place) => {
        const score = left.length - hit + this.weight * hits[place ^ 1];
        return used.has(place >> 1) ? null : Math.min(score, m);
      });
      const found = raceScores(derive(key, "stage", stage), scores, m, this.Gamma);
      if (found === null) break;
      rules.push([found >> 1, found & 1]);
      used.add(found >> 1);
      left = left.filter((i) => !holds[i][found >> 1]);
    }
    const positive = left.filter((i) => y[i] === 1).length;
    return [rules, raceScores(derive(key, "default"), [positive, left.length - positive], m, this.Gamma)];
  }
}

/** The proved queries: while enough is left, the heavy test and label with the fewest mistakes. */
export class QueryLists extends Lists {
  constructor(d, { k, rules, theta, stop, grid }) {
    super(d, k, rules);
    integer("grid", grid, 1n);
    Object.assign(this, { theta, stop, grid });
    for (const [name, share] of Object.entries({ theta, stop }))
      if (share.top < 0n || share.top > share.bottom) throw new ParameterError(`${name} must be in [0, 1], got ${share}`);
    const queries = this.rules * (2 * Number(this.count) + 1);
    this.work = [8 * queries + (1 << 21), Math.floor(queries / 64) + 1];
  }
  learn({ x, y }, seed) {
    const answers = new Answers(seed, this.k === 1n ? "dlist" : "kdl", this.grid, y.length);
    const [holds, rules] = [this.holds(x), []];
    let left = y.map((_, i) => i);
    let unused = Array.from({ length: Number(this.count) }, (_, t) => t);
    while (answers.ask(left.length) * this.stop.bottom > this.stop.top * this.grid && rules.length < this.rules) {
      let best = null;
      for (const t of unused) {
        const here = left.filter((i) => holds[i][t]);
        const masses = [0, 1].map((b) => answers.ask(here.filter((i) => y[i] === b).length));
        if (2n * (masses[0] + masses[1]) * this.theta.bottom < this.theta.top * this.grid) continue;
        for (const b of [0, 1]) if (!best || masses[1 - b] < best[0]) best = [masses[1 - b], t, b];
      }
      if (!best) break;
      const [, t, b] = best;
      rules.push([t, b]);
      unused = unused.filter((other) => other !== t);
      left = left.filter((i) => !holds[i][t]);
    }
    return [rules, 0];
  }
}
