// Public words, logarithms and clocks (docs/wire.md, sections 2 and 4), and where secret words come from.

import { blake2b } from "@noble/hashes/blake2.js";
import { shake256 } from "@noble/hashes/sha3.js";
import { ascii, bitLength, concat, little, number, ParameterError } from "./bytes.js";

const PERSON = concat(ascii("privpac.cs.v1"), new Uint8Array(3));
const BLOCK = 512;
const ALL = (1n << 64n) - 1n;
const HALF = 1n << 63n;

/** BLAKE2b-256. */
export const digest = (data) => blake2b(data, { dkLen: 32 });

/** A 32-byte key for one purpose. */
export function derive(key, label, index = 0) {
  const data = concat(little(label.length, 8), ascii(label), little(index, 8));
  return blake2b(data, { dkLen: 32, key, personalization: PERSON });
}

export const wordNamed = (key, name) => number(blake2b(name, { dkLen: 8, key }));

/** Two public words of a node of a dyadic race. */
export function nodeWords(key, level, prefix) {
  const found = blake2b(concat(Uint8Array.of(level), little(prefix, 8)), { dkLen: 16, key });
  return [number(found.subarray(0, 8)), number(found.subarray(8))];
}

/** The public words 0, 1, ... of a key. */
export function* wordsIndexed(key) {
  for (let block = 0; ; block++) {
    const found = shake256(concat(key, little(block, 8)), { dkLen: 8 * BLOCK });
    for (let i = 0; i < BLOCK; i++) yield number(found.subarray(8 * i, 8 * i + 8));
  }
}

/** log2 with 56 fraction bits, of a BigInt from 1 on. */
export function ilog2(x) {
  const e = BigInt(bitLength(x) - 1);
  let [a, out] = [e < 63n ? x << (63n - e) : x >> (e - 63n), e];
  for (let i = 0; i < 56; i++) {
    a = (a * a) >> 64n;
    if (a >= HALF) out = 2n * out + 1n;
    else {
      out = 2n * out;
      a = 2n * a;
    }
  }
  return out;
}

/** A standard exponential variable in units of ln 2 / 2^56, from a uniform word. */
export const clock = (word) => (64n << 56n) - ilog2(word | 1n);

/** Numbers from a source of uniform 64-bit words: `bits` and `below` as section 2 fixes them. */
export class Draws {
  constructor(next) {
    this.next = next;
  }
  bits(k) {
    const words = Math.ceil(k / 64);
    let value = 0n;
    for (let i = 0; i < words; i++) value = (value << 64n) | (this.next() & ALL);
    return value >> BigInt(64 * words - k);
  }
  below(n) {
    const top = BigInt(n);
    if (top < 1n) throw new ParameterError("below(n) needs n of at least 1");
    const k = bitLength(top - 1n);
    if (k === 0) return 0n;
    for (;;) {
      const value = this.bits(k);
      if (value < top) return value;
    }
  }
}

/** Secret words from the system's generator; there is no other source and no fallback. */
export function systemDraws() {
  return new Draws(() => number(crypto.getRandomValues(new Uint8Array(8))));
}

/** Coins that everyone may know. */
export function publicDraws(seed, label) {
  const words = wordsIndexed(derive(seed, label));
  return new Draws(() => words.next().value);
}

/** Rounded answers to statistical queries, counted from 0 in asking order. */
export class Answers {
  constructor(seed, label, grid, records) {
    this.key = derive(seed, label);
    this.grid = BigInt(grid);
    this.records = BigInt(records);
    this.asked = 0;
  }
  /** top/bottom rounded with the next public offset; bottom is positive. */
  round(top, bottom) {
    const word = wordNamed(this.key, little(this.asked++, 8));
    const over = bottom << 64n;
    const value = (top << 64n) + word * bottom;
    const q = value / over;
    return value < 0n && value % over !== 0n ? q - 1n : q;
  }
  /** The rounded mean of a query whose sum over the records this is. */
  ask(sum, scale = 1n) {
    return this.round(this.grid * BigInt(sum), this.records * scale);
  }
}
