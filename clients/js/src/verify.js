// What is checked before anything is sent: does the mechanism in the manifest keep the guarantee it claims? Decided with
// integers; every quantity is rounded against the claim (docs/wire.md, section 9).

import { bitLength, ceilDiv, ManifestError } from "./bytes.js";
import { expMinus, Mass, ratio, Ratio } from "./exact.js";

export const MAX_CAP = 1n << 18n;
const BITS = 256n;
const WIDE = 2n * BITS;
const MOST = 1 << 15;
const WHOLE = 1n << 64n;
const ONE = ratio(1);
const TAIL = new Ratio(1n, 1n << 40n);

/** Rationals around e^-epsilon. */
function decay(epsilon) {
  const scaled = epsilon.top << BITS;
  const [low, high] = expMinus(scaled / epsilon.bottom, ceilDiv(scaled, epsilon.bottom), BITS);
  return [new Ratio(low, 1n << BITS), new Ratio(high, 1n << BITS)];
}

/** keep/(1 - keep) <= e^epsilon. */
export const keepsLocal = (keep, epsilon) => ONE.minus(keep).over(keep).compare(decay(epsilon)[1]) >= 0;

/** Enclosures of f(k) and of Pr[Y >= k] for NB(r, p), as integers over 2^512. */
class Tails {
  constructor(r, p) {
    const mass = new Mass(r, p, WIDE);
    // No lower end would ever rise above 0, while the upper ones grow beyond all bounds.
    if (mass.f[0] === 0n) throw new ManifestError("the noise spreads over too many counts");
    this.f = [mass.f];
    for (let k = 0n; ; ) {
      mass.step(k++);
      this.f.push(mass.f);
      const later = p.times(r.plus(new Ratio(k))).over(new Ratio(k + 1n));
      if (later.compare(ONE) < 0 && mass.f[1] < 1n << BITS) {
        this.beyond = new Ratio(mass.f[1]).times(later).over(ONE.minus(later)).ceil();
        break;
      }
      if (k > MOST) throw new ManifestError("the noise spreads over too many counts");
    }
    let at = [0n, this.beyond];
    this.tails = [at];
    for (const [low, high] of [...this.f].reverse()) this.tails.push((at = [at[0] + low, at[1] + high]));
    this.tails.reverse();
  }
  at(k) {
    return k >= 0n && k < this.f.length ? this.f[Number(k)] : [0n, 0n];
  }
  tail(k) {
    return k < this.tails.length ? this.tails[k < 0n ? 0 : Number(k)] : [0n, this.beyond];
  }
}

/** Refuse, before a table is built, noise that no table of a device holds: long numbers, or a mean beyond it. */
function checkNoise(r, p) {
  if ([r.top, r.bottom, p.top, p.bottom].some((part) => part >= WHOLE))
    throw new ManifestError("r and p of the noise have numerators and denominators below 2**64");
  if (r.times(p).over(ONE.minus(p)).compare(ratio(MOST)) > 0)
    throw new ManifestError("the noise spreads over too many counts");
}

/** An upper bound on the delta of a shuffled count, the cap on messages included. */
export function shuffleDelta(select, nMax, epsilon) {
  checkNoise(select.r, select.p);
  const [low, high] = decay(epsilon);
  const noise = new Tails(select.r, select.p);
  const less = select.r.minus(ONE);
  let total = 0n; // over 2^1024
  let last = true;
  for (let b = 0n; b < noise.f.length; b++) {
    const share = new Ratio(b).over(less.plus(new Ratio(b)));
    if (share.compare(high) >= 0) {
      last = false; // no term is positive from here on
      break;
    }
    if (share.compare(low) >= 0) throw new ManifestError("a ratio could not be decided; choose other parameters");
    const [least, most] = [high, low].map((end) => share.times(less).over(end.minus(share)).floor());
    if (least !== most) throw new ManifestError("a boundary could not be decided; choose other parameters");
    const first = least + 1n;
    const gained = noise.at(b)[1] * noise.tail(first - 1n)[1];
    const lost = (noise.at(b - 1n)[0] * noise.tail(first)[0] * high.bottom) / high.top;
    if (gained > lost) total += gained - lost;
  }
  if (last) total += noise.beyond << WIDE;
  if (select.cap < leastCap(select)) throw new ManifestError("the cap on messages is too small for the noise");
  const price = ONE.plus(ONE.over(low)).times(new Ratio(nMax)).times(TAIL);
  return new Ratio(total, 1n << (2n * WIDE)).plus(price);
}

/** The least cap that one client's messages exceed with probability at most 2^-40. */
export function leastCap(select) {
  const x = select.share.times(new Ratio(select.buckets));
  const rest = ONE.minus(select.p);
  const tooMany = () => {
    throw new ManifestError(`a client might send more than ${MAX_CAP} messages; choose fewer buckets, or more clients`);
  };
  if (x.times(select.p).over(rest).plus(new Ratio(select.real)).compare(new Ratio(MAX_CAP)) > 0) tooMany();
  const bits = WIDE + BigInt(bitLength(ONE.over(rest).ceil())) * (x.floor() + 1n);
  if (bits > MOST)
    throw new ManifestError("the noise needs more precision than a device has; choose fewer buckets, or more clients");
  const mass = new Mass(x, select.p, bits);
  const enough = (1n << bits) - ((1n << bits) >> 40n);
  let most = 0n;
  while (mass.sum[0] < enough) {
    mass.step(most++);
    if (most + select.real > MAX_CAP) tooMany();
  }
  return select.real + most;
}
