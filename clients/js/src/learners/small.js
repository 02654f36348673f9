// Parities of many columns by a linear system, and the rules of a small class that are right on parts of the records
// (docs/wire.md, section 5).

import { bitLength, hex, little, number, ParameterError } from "../bytes.js";
import { ceilLog, Ratio } from "../exact.js";
import { raceNamed } from "../races.js";
import { derive, publicDraws } from "../words.js";
import { Bits, integer } from "./universe.js";

const MOST_ENTRIES = 1n << 15n;
const MOST_RECORDS = (1n << 31n) - 1n;
const odd = (value) => {
  let count = 0;
  for (const digit of value.toString(2)) if (digit === "1") count ^= 1;
  return count;
};

/** Linearly independent masks, drawn one after another from public coins. */
function publicBasis(seed, width) {
  const [coins, basis, reduced] = [publicDraws(seed, "basis"), [], new Map()];
  while (basis.length < width) {
    const vector = coins.bits(width);
    let rest = vector;
    while (rest && reduced.has(bitLength(rest))) rest ^= reduced.get(bitLength(rest));
    if (!rest) continue;
    reduced.set(bitLength(rest), rest);
    basis.push(vector);
  }
  return basis;
}

/** The solution with free coordinates 0 (pivots from coordinate 0 up; bit `width` is the right side); null if none. */
function solve(system, width) {
  const pivots = new Map();
  const low = (1n << BigInt(width)) - 1n;
  for (let row of system) {
    for (const [place, other] of pivots) if ((row >> place) & 1n) row ^= other;
    const left = row & low;
    if (!left) {
      if (row) return null;
      continue;
    }
    const place = BigInt(bitLength(left & -left) - 1);
    for (const [earlier, other] of pivots) if ((other >> place) & 1n) pivots.set(earlier, other ^ row);
    pivots.set(place, row);
  }
  let out = 0n;
  for (const [place, row] of pivots) if ((row >> BigInt(width)) & 1n) out |= 1n << place;
  return out;
}

/** The parity that explains all records, in a public basis; records without one say nothing. */
export class ParitySolver {
  constructor(width) {
    integer("width", BigInt(width), 1n, 4096n);
    this.width = width;
    this.universe = new Bits(width);
    this.work = [4 * width ** 2, 2 * width];
  }
  item({ x, y }, seed) {
    const basis = publicBasis(seed, this.width);
    const system = x.map((row, i) => {
      const bits = row.reduce((total, bit, j) => total | (bit << BigInt(j)), 0n);
      const values = basis.reduce((total, vector, j) => total | (BigInt(odd(vector & bits)) << BigInt(j)), 0n);
      return values | (BigInt(y[i]) << BigInt(this.width));
    });
    const solution = solve(system, this.width);
    if (solution === null) return null;
    const mask = basis.reduce((total, vector, j) => ((solution >> BigInt(j)) & 1n ? total ^ vector : total), 0n);
    return little(mask, this.universe.longest);
  }
  rule = (item) => ({ kind: "parity", mask: number(item) });
}

/** The race among the rules that are right (up to a share) on at least half of the parts. */
export class VersionLists {
  constructor(scores, { Gamma, alpha, parts, share, mMin, mCap }) {
    integer("Gamma", Gamma, 0n, (1n << 62n) - 1n);
    integer("parts", parts, 1n, MOST_RECORDS);
    const count = scores.sizes.reduce((a, b) => a + b, 0n);
    const points = scores.domains.reduce((a, b) => a * b, 1n);
    if (count * points > MOST_ENTRIES)
      throw new ParameterError(
        `lists need every rule at every point: ${count} rules on ${points} points, at most ${MOST_ENTRIES} entries; ` +
          "take a coarser domain or fewer columns, or learner='race'",
      );
    if (alpha.top <= 0n || alpha.top > alpha.bottom) throw new ParameterError(`alpha must be in (0, 1], got ${alpha}`);
    if (share.top < 0n || share.top >= share.bottom) throw new ParameterError(`share must be in [0, 1), got ${share}`);
    Object.assign(this, { scores, Gamma, share, parts: Number(parts), mMin });
    // Rules that say the same at every point are one; `each` follows from their number.
    this.tables = this.written(Number(count), Number(points));
    this.each = ceilLog(new Ratio(20n * BigInt(this.tables.length)), new Ratio(1n).over(alpha));
    this.needed = this.each * parts;
    if (this.needed > mCap)
      throw new ParameterError(
        `${parts} lists of ${this.each} records read ${this.needed} records of a person, more than the ${mCap} allowed`,
      );
    this.universe = new Bits(Number(points));
    const table = this.tables.length * Number(points);
    this.work = [4096 + table + Number(parts) * table, 64];
  }
  written(count, points) {
    const found = new Map();
    const rows = Array.from({ length: points }, (_, place) => {
      const row = [];
      let rest = BigInt(place);
      for (const size of [...this.scores.domains].reverse()) {
        row.unshift(rest % size);
        rest /= size;
      }
      return row;
    });
    for (let i = 0; i < count; i++) {
      const rule = this.scores.rule(BigInt(i));
      const bits = rows.map((row) => this.scores.says(rule, row));
      const packed = new Uint8Array(Math.ceil(points / 8));
      bits.forEach((bit, place) => (packed[place >> 3] |= bit << (place & 7)));
      if (!found.has(hex(packed))) found.set(hex(packed), { bits, packed, rule });
    }
    return [...found.values()];
  }
  place = (row) => row.reduce((total, code, j) => total * Number(this.scores.domains[j]) + Number(code), 0);
  item({ x, y }, seed) {
    if (BigInt(y.length) < this.needed) return null;
    const step = Number(this.each);
    const counts = new Map();
    const allowed = Number((this.share.top * this.each) / this.share.bottom);
    for (let part = 0; part < this.parts; part++) {
      const here = Array.from({ length: step }, (_, i) => part * step + i);
      const places = here.map((i) => this.place(x[i]));
      for (const { bits, packed } of this.tables) {
        const wrong = here.filter((i, k) => bits[places[k]] !== y[i]).length;
        if (wrong > allowed) continue;
        const text = hex(packed);
        counts.set(text, [packed, (counts.get(text)?.[1] ?? 0) + 1]);
      }
    }
    const running = new Map();
    for (const [text, [packed, count]] of counts)
      if (2 * count >= this.parts) running.set(text, [packed, this.parts - count]);
    return raceNamed(derive(seed, "alg1"), running, this.parts, this.Gamma);
  }
  rule(item) {
    return this.tables.find(({ packed }) => hex(packed) === hex(item))?.rule ?? { kind: "table" };
  }
}
