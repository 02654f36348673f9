// What is drawn and sent for an item: local reports, shuffled buckets, central items (docs/wire.md, sections 7 and 8).

import { ascii, bitLength, concat, little, ManifestError, ParameterError } from "./bytes.js";
import { Mass, ratio, Ratio } from "./exact.js";

export const KIND_OF = { central: 1, local: 2, shuffle: 3 };
const MOST_BITS = 1 << 16;

/** The first 13 bytes of a message. */
export const frame = (magic, kind, run) => concat(ascii(magic), Uint8Array.of(kind), run.subarray(0, 8));

/** Reports of one bit of an item's Hadamard code, through randomised response. */
export class LocalReports {
  constructor(bits, keep, width) {
    if (keep.compare(ratio(1, 2)) <= 0 || keep.compare(ratio(1)) >= 0)
      throw new ManifestError("keep must be a rational strictly between 1/2 and 1");
    if (bits < 1 || bits >= 1 << 19) throw new ManifestError("an item has between 1 and 2**19 - 1 bits");
    if (width < 1 || width > 22) throw new ManifestError(`one transform takes items of 1 to 22 bits, got ${width}`);
    Object.assign(this, { bits, keep, width, chunks: Math.ceil(bits / width) });
    if (this.chunks >= 1 << 16) throw new ManifestError(`${this.chunks} chunks are more than 65535; use wider ones`);
  }
  /** [chunk, j, bit] for a number, or for nothing to say (null); as many words are drawn for either. */
  report(item, draws) {
    const chunk = Number(draws.below(this.chunks));
    const width = BigInt(Math.min(this.width, this.bits - chunk * this.width));
    const j = draws.below(1n << width);
    const coin = Number(draws.bits(1));
    const truth = draws.below(this.keep.bottom) < this.keep.top;
    if (item === null) return [chunk, j, coin];
    const value = (item >> BigInt(chunk * this.width)) & ((1n << width) - 1n);
    let sign = 1;
    for (let rest = j & value; rest; rest >>= 1n) sign ^= Number(rest & 1n);
    return [chunk, j, truth ? sign : 1 - sign];
  }
  messages(run, item, draws) {
    const [chunk, j, bit] = this.report(item, draws);
    return [concat(frame("PPM1", 2, run), little(chunk, 2), little(j, 4), Uint8Array.of(bit))];
  }
}

/** The k with F(k-1) <= U < F(k) for every U in [u, u+1)/2^bits, if the enclosures decide it; else null. */
function invert(x, p, u, bits) {
  const mass = new Mass(x, p, BigInt(bits));
  const mean = x.times(p).over(new Ratio(1n).minus(p));
  for (let k = 0n; ; ) {
    if (u + 1n <= mass.sum[0]) return k;
    if (u < mass.sum[1]) return null;
    mass.step(k++);
    if (mass.f[1] <= 1n && k * mean.bottom > mean.top) return null; // the tail is below the resolution
  }
}

/** One exact draw of NB(x, p). */
export function sampleTotal(x, p, draws) {
  const rest = new Ratio(1n).minus(p);
  if (x.times(p).over(rest).compare(new Ratio(1n << 20n)) > 0)
    throw new ParameterError("the noise would be more than 2^20 messages on average; choose fewer buckets, or a larger n_min");
  const places = BigInt(bitLength(new Ratio(1n).over(rest).ceil()));
  let [known, drawn] = [0n, 0];
  for (let bits = 128 + Number(x.times(new Ratio(places)).floor()); bits <= MOST_BITS; bits *= 2) {
    known = (known << BigInt(bits - drawn)) | draws.bits(bits - drawn);
    drawn = bits;
    const found = invert(x, p, known, bits);
    if (found !== null) return found;
  }
  throw new ParameterError("the noise needs more precision than is provided; choose fewer buckets, or a larger n_min");
}

/** One real message among noise messages. */
export class ShuffledBuckets {
  constructor(size, { r, p, nMin, cap, width, direction }) {
    if (nMin < 1n || cap < 1n || width < 0n || width > 16n)
      throw new ManifestError("size, n_min and cap must be at least 1, and a chunk has at most 16 bits");
    if (r.compare(ratio(1)) <= 0 || p.top <= 0n || p.compare(ratio(1)) >= 0)
      throw new ManifestError("the noise needs r > 1 and 0 < p < 1");
    if (direction !== "over" && direction !== "under")
      throw new ManifestError("direction must be 'over' or 'under'");
    const bits = Math.max(1, bitLength(size - 1n));
    this.chunks = width === 0n ? 1 : Math.ceil(bits / Number(width));
    this.null = width === 0n ? size : BigInt(this.chunks) << width;
    this.buckets = this.null + 1n;
    Object.assign(this, { size, r, p, nMin, cap, width, direction, share: r.over(new Ratio(nMin)) });
    if (this.buckets > 1n << 16n)
      throw new ManifestError(`${this.buckets} buckets are more than ${1 << 16}; cut items into chunks of 8 bits (width=8)`);
    if (direction === "under" && this.buckets > 64n)
      throw new ManifestError(`direction='under' sends a message per bucket: at most 64 buckets, got ${this.buckets}`);
  }
  /** Real messages of one client. */
  get real() {
    return this.direction === "over" ? 1n : this.buckets - 1n;
  }
  bucket(item, draws) {
    const chunk = draws.below(this.chunks);
    if (item === null) return this.null;
    if (this.width === 0n) return item;
    return (chunk << this.width) | ((item >> (chunk * this.width)) & ((1n << this.width) - 1n));
  }
  noise(draws) {
    const mass = this.share.times(new Ratio(this.buckets));
    const out = [];
    const total = sampleTotal(mass, this.p, draws);
    for (let t = 0n; t < total; t++) {
      const coin = draws.below(mass.top + t * mass.bottom);
      out.push(coin < mass.top ? draws.below(this.buckets) : out[Number(draws.below(t))]);
    }
    return out;
  }
  messages(run, item, draws) {
    const mine = this.bucket(item, draws);
    const others = () => Array.from({ length: Number(this.buckets) }, (_, b) => BigInt(b)).filter((b) => b !== mine);
    const out = [...(this.direction === "over" ? [mine] : others()), ...this.noise(draws)].slice(0, Number(this.cap));
    for (let i = out.length - 1; i > 0; i--) {
      const j = Number(draws.below(i + 1));
      [out[i], out[j]] = [out[j], out[i]];
    }
    return out.map((bucket) => concat(frame("PPM1", 3, run), little(bucket, 4)));
  }
}

/** The item for a curator, filled up with zero bytes; an empty one is nothing to say. */
export class CentralItems {
  constructor(fill) {
    this.fill = fill;
  }
  messages(run, item) {
    const filled = new Uint8Array(Math.max(item.length, this.fill));
    filled.set(item);
    return [concat(frame("PPM1", 1, run), little(item.length, 2), filled)];
  }
}

/** Messages one after another, each after its length. */
export const bundle = (messages) => concat(...messages.flatMap((message) => [little(message.length, 4), message]));
