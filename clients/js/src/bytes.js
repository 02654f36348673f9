// Bytes, integers and texts. Integers that may exceed 2^53 are BigInt; nothing here is a fraction.

/** What this client refuses; the message says what was seen and what to do. */
export class PrivpacError extends Error {
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}
/** The manifest is refused. */
export class ManifestError extends PrivpacError {}
/** A parameter, a file or an answer is not what it must be. */
export class ParameterError extends PrivpacError {}
/** The person's total is spent. */
export class BudgetExhausted extends PrivpacError {}

export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Bytes from small hexadecimal digits; null if the text is anything else. */
export function unhex(text) {
  if (typeof text !== "string" || !/^([0-9a-f]{2})*$/.test(text)) return null;
  return Uint8Array.from({ length: text.length / 2 }, (_, i) => parseInt(text.slice(2 * i, 2 * i + 2), 16));
}

export function concat(...parts) {
  const out = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** An unsigned integer, little end first. */
export function little(value, size) {
  const out = new Uint8Array(size);
  let rest = BigInt(value);
  for (let i = 0; i < size; i++, rest >>= 8n) out[i] = Number(rest & 255n);
  if (rest !== 0n) throw new ParameterError(`${value} does not fit into ${size} bytes`);
  return out;
}

/** The unsigned integer of bytes, little end first. */
export function number(bytes) {
  let out = 0n;
  for (let i = bytes.length - 1; i >= 0; i--) out = (out << 8n) | BigInt(bytes[i]);
  return out;
}

export const ascii = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
export const utf8 = (text) => new TextEncoder().encode(text);
export const same = (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]);

export const bitLength = (value) => (value === 0n ? 0 : (value < 0n ? -value : value).toString(2).length);

/** The floor of a quotient of BigInts, also of negative ones. */
export function floorDiv(a, b) {
  const q = a / b;
  return a % b !== 0n && a < 0n !== b < 0n ? q - 1n : q;
}
export const ceilDiv = (a, b) => -floorDiv(-a, b);

/** The floor of a quotient of integers below 2^53; every step is exact. */
export function floorNumber(a, b) {
  let rest = a % b;
  if (rest !== 0 && rest < 0 !== b < 0) rest += b;
  return (a - rest) / b;
}

/** The floor of a square root. */
export function isqrt(value) {
  if (value < 2n) return value;
  let x = 1n << BigInt((bitLength(value) + 1) >> 1);
  for (;;) {
    const y = (x + value / x) >> 1n;
    if (y >= x) return x;
    x = y;
  }
}

export const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
