// Linear separators: the ridge solution with rounded coefficients, and the ellipsoid of rounded queries, in integers of
// any size (docs/wire.md, section 6).

import { bitLength, floorDiv, isqrt, ParameterError } from "../bytes.js";
import { ceilLog, Ratio } from "../exact.js";
import { Answers } from "../words.js";
import { integer } from "./universe.js";

const rowsOf = ({ x }) => x.map((row) => [...row, 1n]);
const signOf = (y) => (y ? 1n : -1n);
const dot = (a, b) => a.reduce((total, value, j) => total + value * b[j], 0n);
const clip = (value, most) => (value > most ? most : value < -most ? -most : value);

/** [N, det] with matrix N = det target, for a positive definite matrix: Bareiss elimination, both ways. */
export function fractionFreeSolve(matrix, target) {
  const rows = matrix.map((row, i) => [...row, target[i]]);
  let before = 1n;
  for (let k = 0; k < rows.length; k++) {
    const pivot = rows[k][k];
    for (let i = 0; i < rows.length; i++) {
      if (i === k) continue;
      const factor = rows[i][k];
      rows[i] = rows[i].map((a, j) => (pivot * a - factor * rows[k][j]) / before); // exact divisions
    }
    before = pivot;
  }
  return [rows.map((row) => row.at(-1)), before];
}

export class RoundedSeparator {
  constructor(d, bound, { grid, ridge, stages }) {
    integer("grid", grid, 1n);
    integer("d", BigInt(d), 1n, 127n);
    integer("stages", stages, 1n, 64n);
    if (ridge.top <= 0n) throw new ParameterError(`ridge must be positive, got ${ridge}`);
    if (bound !== null) integer("bound", bound, 1n, 1n << 30n);
    Object.assign(this, { d, grid, ridge, stages: Number(stages) });
    const D = d + 1;
    this.work = [this.stages * D ** 4, Math.floor((this.stages * D * D) / 64) + 1];
  }
  learn(records, seed) {
    const answers = new Answers(seed, "svm", this.grid, records.y.length);
    const rows = rowsOf(records);
    const signs = records.y.map(signOf);
    let agreed = null;
    for (let stage = 0; stage < this.stages; stage++) {
      const active = rows.map((row, i) => agreed === null || signs[i] * dot(row, agreed) < this.grid);
      const [top, bottom] = this.newton(rows, signs, active, answers.records);
      const before = agreed;
      agreed = top.map((n, j) =>
        before === null
          ? answers.round(this.grid * n, bottom)
          : answers.round(this.grid * n + before[j] * bottom, 2n * bottom),
      );
    }
    const found = agreed.map((w) => clip(w, (1n << 63n) - 1n));
    return [found.slice(0, -1), found.at(-1)];
  }
  newton(rows, signs, active, total) {
    const D = this.d + 1;
    const gram = Array.from({ length: D }, () => new Array(D).fill(0n));
    const target = new Array(D).fill(0n);
    rows.forEach((row, r) => {
      if (!active[r]) return;
      for (let i = 0; i < D; i++) {
        if (row[i] === 0n) continue;
        target[i] += signs[r] * row[i];
        for (let j = 0; j < D; j++) gram[i][j] += row[i] * row[j];
      }
    });
    const { top, bottom } = this.ridge;
    const matrix = gram.map((row, i) => row.map((entry, j) => bottom * entry + (i === j ? top * total : 0n)));
    return fractionFreeSolve(matrix, target.map((entry) => bottom * entry));
  }
}

/** The least multiple of 1/unit that is at least a square root. */
function sqrtUp(value, unit) {
  const whole = value.times(new Ratio(unit * unit)).ceil();
  const root = isqrt(whole);
  return new Ratio(root * root < whole ? root + 1n : root, unit);
}

const PRACTICAL = { grid: 32n, theta2: 16n, stop: 3n, radius: 5n, steps: 12 };
const UNIT = 30n;
const ONE = 1n << UNIT;

/** Certified parameters in dimension D, for values 0 and 1 (bound null) or integers up to a bound. */
export function planEllipsoid(D, alpha, bound) {
  integer("D", D, 2n, 128n);
  if (alpha.top <= 0n || alpha.top >= alpha.bottom) throw new ParameterError(`alpha must be between 0 and 1, got ${alpha}`);
  const grid = new Ratio(50n * D * D * (D + 1n)).times(sqrtUp(new Ratio(D), 1n << 16n)).over(alpha).ceil();
  if (grid > 1n << 27n)
    throw new ParameterError(`the grid I = ${grid} exceeds 2**27, the limit of the rounding argument; lower D or raise alpha`);
  const theta = alpha.over(new Ratio(10n * D * D)).times(new Ratio(grid));
  if (bound !== null) integer("bound", bound, 1n, 1n << 30n);
  const spread = bound === null ? D : bound * bound * D;
  const radius = isqrt((bound === null ? D ** (D + 1n) : D * D * spread ** (D - 1n)) - 1n) + 2n;
  const factor = new Ratio(5n * D * (D + 1n), 2n); // ln radius + (ln spread)/2 = (ln (radius^2 spread))/2
  return {
    grid,
    theta2: theta.times(theta).ceil(),
    stop: new Ratio(3n * grid, 4n).times(alpha).floor(),
    radius,
    steps: Number(ceilLog(new Ratio(radius * radius * spread), factor)),
  };
}

export class Ellipsoid {
  constructor(d, bound, alpha) {
    integer("d", BigInt(d), 1n, 127n);
    if (bound !== null) integer("bound", bound, 1n, 1n << 30n);
    const D = BigInt(d + 1);
    Object.assign(this, { D: d + 1, ...(alpha === null ? PRACTICAL : planEllipsoid(D, alpha, bound)) });
    const up = new Ratio((1n << 20n) + 1n, 1n << 20n).times(new Ratio(ONE));
    const kappa = new Ratio(1n, 16n * (D + 1n) ** 2n);
    this.cutA = up.times(new Ratio(D * (4n * D + 5n), 4n * (D + 1n) ** 2n)).ceil();
    this.cutB = up.times(sqrtUp(new Ratio(D * D, D * D - 1n).times(new Ratio(1n).minus(kappa)), ONE)).ceil();
    this.slabA = up.times(new Ratio(1n, 2n)).ceil();
    this.slabB = up.times(sqrtUp(new Ratio(4n * D - 1n, 4n * (D - 1n)), ONE)).ceil();
    this.bytes = BigInt(Math.ceil((70 + bitLength((this.radius ** 2n * D) ** 3n - 1n)) / 8));
    this.work = [this.steps * this.D ** 3, this.steps * this.D ** 2];
  }
  learn(records, seed) {
    const most = (1n << (8n * this.bytes - 1n)) - 1n;
    const centre = this.run(records, seed).map((c) => clip(c, most));
    return [centre.slice(0, -1), centre.at(-1)];
  }
  run(records, seed) {
    const answers = new Answers(seed, "ellipsoid", this.grid, records.y.length);
    const [rows, signs, D] = [rowsOf(records), records.y.map(signOf), this.D];
    const range = Array.from({ length: D }, (_, j) => j);
    const ask = (query) => answers.ask(query.reduce((a, b) => a + b, 0n), ONE);
    this.centre = range.map(() => 0n);
    this.shape = range.map((i) => range.map((j) => (i === j ? this.radius << 64n : 0n)));
    for (let step = 0; step < this.steps; step++) {
      const wrong = rows.map((row, i) => signs[i] * dot(row, this.centre) <= 0n);
      if (answers.ask(BigInt(wrong.filter(Boolean).length) * ONE, ONE) <= this.stop) return this.centre;
      // Records that the centre gets right count as 0 in every further query.
      const u = rows.flatMap((row, r) => (wrong[r] ? [this.direction(row, signs[r], range)] : []));
      const mean = range.map((j) => ask(u.map((v) => v[j])));
      if (dot(mean, mean) >= this.theta2) {
        const along = this.stretch(mean, this.cutA, this.cutB);
        const [top, bottom] = [3n * BigInt(D) + 4n, (4n * BigInt(D + 1) ** 2n) << UNIT];
        this.centre = this.centre.map((c, i) => c + floorDiv(along[i] * top, bottom));
        continue;
      }
      const second = range.map((j) => ask(u.map((v) => (v[j] * v[j]) >> UNIT)));
      const first = second.reduce((best, value, j) => (value > second[best] ? j : best), 0);
      const column = range.map((i) => (i === first ? second[i] : ask(u.map((v) => (v[first] * v[i]) >> UNIT))));
      if (column.every((value) => value === 0n)) return this.centre;
      this.stretch(column, this.slabA, this.slabB);
    }
    return this.centre;
  }
  /** sgn floor(2^30 a / n) for a = L^T x, n = isqrt(|a|^2) + 1. */
  direction(row, sign, range) {
    const inner = range.map((j) => row.reduce((total, value, i) => total + value * this.shape[i][j], 0n));
    const length = isqrt(dot(inner, inner)) + 1n;
    return inner.map((a) => sign * floorDiv(a << UNIT, length));
  }
  stretch(towards, a, b) {
    const length = isqrt(dot(towards, towards) << 60n);
    const g = towards.map((value) => floorDiv(value << 60n, length));
    const along = this.shape.map((row) => dot(row, g));
    this.shape = this.shape.map((row, i) =>
      row.map((entry, j) => (b * (entry << 60n) + (a - b) * along[i] * g[j]) >> 90n),
    );
    return along;
  }
}

