// Rationals, and enclosures of logarithms and exponentials between integers over a power of two. Step for step the
// arithmetic of docs/wire.md, section 9; no floating point decides anything.

import { bitLength, ceilDiv, floorDiv, ManifestError, ParameterError } from "./bytes.js";

const gcd = (a, b) => {
  while (b) [a, b] = [b, a % b];
  return a < 0n ? -a : a;
};

/** A rational in lowest terms with a positive denominator. */
export class Ratio {
  constructor(top, bottom = 1n) {
    if (bottom === 0n) throw new ParameterError("a rational has no zero below its line");
    const common = gcd(top, bottom) * (bottom < 0n ? -1n : 1n);
    this.top = top / common;
    this.bottom = bottom / common;
  }
  plus(other) {
    return new Ratio(this.top * other.bottom + other.top * this.bottom, this.bottom * other.bottom);
  }
  minus(other) {
    return new Ratio(this.top * other.bottom - other.top * this.bottom, this.bottom * other.bottom);
  }
  times(other) {
    return new Ratio(this.top * other.top, this.bottom * other.bottom);
  }
  over(other) {
    return new Ratio(this.top * other.bottom, this.bottom * other.top);
  }
  compare(other) {
    const left = this.top * other.bottom;
    const right = other.top * this.bottom;
    return left < right ? -1 : left > right ? 1 : 0;
  }
  floor() {
    return floorDiv(this.top, this.bottom);
  }
  ceil() {
    return ceilDiv(this.top, this.bottom);
  }
  toString() {
    return this.bottom === 1n ? `${this.top}` : `${this.top}/${this.bottom}`;
  }
}

export const ratio = (top, bottom = 1) => new Ratio(BigInt(top), BigInt(bottom));

const EXACT = /^(-?)([0-9]{1,400})(?:\/([0-9]{1,400})|\.([0-9]{1,300}))?$/;

/** A rational of a manifest: an integer, "a/b" or a decimal without exponent. */
export function exact(value) {
  if (typeof value === "bigint" && bitLength(value) < 1300) return new Ratio(value);
  const found = typeof value === "string" ? EXACT.exec(value) : null;
  if (!found) throw new ManifestError("a rational is an integer or a text such as '1/10'");
  const sign = found[1] ? -1n : 1n;
  if (found[4] !== undefined) return new Ratio(sign * BigInt(found[2] + found[4]), 10n ** BigInt(found[4].length));
  const bottom = BigInt(found[3] ?? 1);
  if (bottom === 0n) throw new ManifestError("a rational has no zero below its line");
  return new Ratio(sign * BigInt(found[2]), bottom);
}

/** 2^bits atanh(top/bottom) for 0 <= 3 top <= bottom, as [low, high]. */
function atanh(top, bottom, bits) {
  let term = (top << bits) / bottom;
  const [top2, bottom2] = [top * top, bottom * bottom];
  let [total, terms] = [0n, 0n];
  for (let k = 1n; term; k += 2n, terms++) {
    total += term / k;
    term = (term * top2) / bottom2;
  }
  return [total, total + 2n * terms + 2n];
}

/** 2^bits ln(value) for value >= 1, as [low, high]. */
export function log(value, bits) {
  const two = (power) => (power < 0n ? new Ratio(1n, 1n << -power) : new Ratio(1n << power));
  let shift = BigInt(Math.max(bitLength(value.top) - bitLength(value.bottom), 0));
  if (value.compare(two(shift + 1n)) >= 0) shift++;
  let rest = value.over(two(shift));
  if (rest.compare(new Ratio(1n)) < 0) {
    shift--;
    rest = rest.times(new Ratio(2n));
  }
  const [low, high] = atanh(rest.top - rest.bottom, rest.top + rest.bottom, bits);
  const [twoLow, twoHigh] = atanh(1n, 3n, bits);
  return [2n * low + 2n * shift * twoLow, 2n * high + 2n * shift * twoHigh];
}

/** A bound on 2^bits e^(-t/2^bits): halve until small, sum the series, square back. */
function expBelow(t, bits, upper) {
  const halvings = BigInt(bitLength(t >> bits) + 8);
  const work = bits + 2n * halvings + 16n;
  let small = (t << (work - bits)) >> halvings;
  if (!upper) small++;
  const one = 1n << work;
  let [total, term, k] = [one, one, 0n];
  while (term) {
    k++;
    term = ((term * small) >> work) / k;
    total += k % 2n ? -term : term;
  }
  const slack = 2n * k + 2n;
  let value = upper ? total + slack : total - slack;
  if (upper && value > one) value = one;
  if (!upper && value < 0n) value = 0n;
  for (let i = 0n; i < halvings; i++) value = ((value * value) >> work) + (upper ? 1n : 0n);
  const out = value >> (work - bits);
  return upper ? out + 1n : out;
}

/** 2^bits e^-t for t in [low, high]/2^bits, as [low, high]. */
export const expMinus = (low, high, bits) => [expBelow(high, bits, false), expBelow(low, bits, true)];

/** The ceiling of factor ln(value), value >= 1: decided by an enclosure of 256 bits. */
export function ceilLog(value, factor = new Ratio(1n)) {
  const [low, high] = log(value, 256n).map((end) => new Ratio(end, 1n << 256n).times(factor).ceil());
  if (low !== high) throw new ManifestError("a logarithm could not be decided; choose other parameters");
  return high;
}

/** Enclosures of f(0), f(1), ... of NB(x, p) and of their sums, over 2^bits. */
export class Mass {
  constructor(x, p, bits) {
    Object.assign(this, { x, p });
    const guard = BigInt(64 + bitLength(x.floor()));
    const [low, high] = log(new Ratio(1n).over(new Ratio(1n).minus(p)), bits + guard);
    const first = expMinus((low * x.top) / x.bottom, ceilDiv(high * x.top, x.bottom), bits + guard);
    this.f = [first[0] >> guard, -(-first[1] >> guard)];
    this.sum = this.f;
  }
  /** From f(k) to f(k + 1). */
  step(k) {
    const top = this.p.top * (k * this.x.bottom + this.x.top);
    const bottom = this.p.bottom * this.x.bottom * (k + 1n);
    this.f = [(this.f[0] * top) / bottom, ceilDiv(this.f[1] * top, bottom)];
    this.sum = [this.sum[0] + this.f[0], this.sum[1] + this.f[1]];
  }
}
