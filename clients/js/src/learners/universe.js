// The items a learner can send, and their numbers (docs/wire.md, section 5).

import { bitLength, little, number, ParameterError } from "../bytes.js";

/** An integer parameter within its range, as a BigInt. */
export function integer(name, value, low, high = null) {
  if (typeof value !== "bigint") throw new ParameterError(`${name} must be an integer`);
  if (value < low || (high !== null && value > high))
    throw new ParameterError(
      `${name} must be ${high === null ? `at least ${low}` : `in ${low}..${high}`}, got ${value}`,
    );
  return value;
}

/** The items 0..size-1, little end first in as few bytes as hold the largest. */
export class Numbers {
  constructor(size) {
    this.size = BigInt(size);
    this.bits = Math.max(1, bitLength(this.size - 1n));
    this.longest = Math.ceil(this.bits / 8);
  }
  number = (item) => integer("the number of an item", number(item), 0n, this.size - 1n);
  item = (place) => little(place, this.longest);
  has = (item) => item.length === this.longest && number(item) < this.size;
}

/** All byte strings of a width, of which only the first `used` bits may be set in a rule. */
export class Bits {
  constructor(used) {
    this.used = used;
    this.longest = Math.ceil(used / 8);
    this.bits = 8 * this.longest;
    this.size = 1n << BigInt(this.bits);
  }
  number = (item) => number(item);
  has = (item) => item.length === this.longest && bitLength(number(item)) <= this.used;
}

/** Lists of at most `rules` rules over `tests` tests: the default, then one digit for every rule. */
export class PackedLists {
  constructor(tests, rules) {
    Object.assign(this, { tests, rules });
    this.size = 2n * BigInt(2 * tests + 1) ** BigInt(rules);
    this.bits = bitLength(this.size - 1n);
    this.longest = 3 * rules + 1;
  }
  read(item) {
    const rules = [];
    for (let i = 0; i + 2 < item.length; i += 3) rules.push([item[i] + 256 * item[i + 1], item[i + 2]]);
    return [rules, item.at(-1)];
  }
  has(item) {
    if (item.length % 3 !== 1 || item.length > this.longest) return false;
    const [rules, last] = this.read(item);
    return last <= 1 && rules.every(([test, label]) => test < this.tests && label <= 1);
  }
  number(item) {
    const [rules, last] = this.read(item);
    let out = 0n;
    for (const [test, label] of rules.reverse()) out = out * BigInt(2 * this.tests + 1) + BigInt(1 + 2 * test + label);
    return 2n * out + BigInt(last);
  }
}
