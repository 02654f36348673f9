// Columns: public domains, and the code of a value (docs/wire.md, section 3). INVALID drops the record it is in.

import { ManifestError, ParameterError } from "./bytes.js";
import { exact, Ratio } from "./exact.js";

export const INVALID = -1n;
const WRITTEN = /^\s*([+-]?)(?:([0-9]{1,40})(?:\.([0-9]{0,40}))?|\.([0-9]{1,40}))(?:[eE]([+-]?[0-9]{1,3}))?\s*$/;
const TOP = 1n << 63n;
const DAY = 86_400_000;

/** The rational of a written decimal; null if it is none. */
function decimal(text) {
  const found = WRITTEN.exec(text);
  if (!found) return null;
  const digits = found[4] ?? found[3] ?? "";
  const top = BigInt((found[2] ?? "") + digits || "0") * (found[1] === "-" ? -1n : 1n);
  const power = BigInt(found[5] ?? 0) - BigInt(digits.length);
  return power < 0n ? new Ratio(top, 10n ** -power) : new Ratio(top * 10n ** power);
}

/** Days since 1970-01-01 of a text like 2020-12-31; null if there is no such day. */
function dayOf(text) {
  const found = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text);
  if (!found || found[1] === "0000") return null;
  const moment = new Date(0);
  moment.setUTCFullYear(Number(found[1]), Number(found[2]) - 1, Number(found[3]));
  return moment.toISOString().slice(0, 10) === text ? BigInt(Math.round(moment.getTime() / DAY)) : null;
}

const numbers = {
  read(entry) {
    const [lo, hi, step] = ["lo", "hi", "step"].map((key) => exact(entry.get(key) ?? 1n));
    const steps = step.top > 0n ? hi.minus(lo).over(step) : new Ratio(-1n);
    if (steps.top < 0n || steps.bottom !== 1n || steps.top >= 1n << 64n)
      throw new ManifestError("hi must be lo plus a number of steps, below 2**64");
    if (10n ** 300n % lo.bottom || 10n ** 300n % step.bottom)
      throw new ManifestError("lo, hi and step must be decimals");
    return { size: steps.top + 1n, lo, step };
  },
  code(column, value) {
    // A number of the language is its shortest decimal, which is also how it is written.
    const read = typeof value === "bigint" ? new Ratio(value) : decimal(String(value));
    if (!read) return INVALID;
    const place = read.minus(column.lo).over(column.step);
    return place.bottom === 1n && place.top >= 0n && place.top < column.size ? place.top : INVALID;
  },
  text: (column, code) => shown(column.lo.plus(column.step.times(new Ratio(code)))),
};

const values = {
  read(entry) {
    const listed = entry.get("values") ?? entry.get("ordered"); // in an order that means something
    if (!Array.isArray(listed) || !listed.length || listed.some((value) => typeof value !== "string"))
      throw new ManifestError("values must be a list of texts");
    if (new Set(listed).size < listed.length) throw new ManifestError("values must differ");
    return { size: BigInt(listed.length), values: listed };
  },
  code: (column, value) => BigInt(column.values.indexOf(String(value))),
  text: (column, code) => column.values[Number(code)],
};

const days = {
  read(entry) {
    const [low, high] = ["from", "to"].map((key) => dayOf(entry.get(key)));
    if (low === null || high === null) throw new ManifestError("days are written like 2020-12-31");
    if (high < low) throw new ManifestError("to must not be before from");
    return { size: high - low + 1n, low };
  },
  code(column, value) {
    const text = value instanceof Date ? (isNaN(value) ? "" : value.toISOString()) : String(value).trim();
    const found = /^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]00:00(?::00(?:\.0{1,6})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?)?$/.exec(text);
    const day = found && dayOf(found[1]);
    const place = day === null ? INVALID : day - column.low;
    return place >= 0n && place < column.size ? place : INVALID;
  },
  text: (column, code) => new Date(Number(column.low + code) * DAY).toISOString().slice(0, 10),
};

const floats = {
  read(entry) {
    if (entry.get("floats") !== 64n) throw new ManifestError("a column of floats says floats = 64");
    return { size: 1n << 64n };
  },
  code(column, value) {
    if (typeof value === "string" && !WRITTEN.test(value)) return INVALID;
    if (!["string", "number", "bigint"].includes(typeof value)) return INVALID;
    const number = Number(value);
    if (!Number.isFinite(number) || (typeof value === "bigint" && BigInt(number) !== value)) return INVALID;
    const view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, number || 0);
    const bits = view.getBigUint64(0);
    return bits < TOP ? bits + TOP : (1n << 64n) - 1n - bits;
  },
  text(column, code) {
    const view = new DataView(new ArrayBuffer(8));
    view.setBigUint64(0, code >= TOP ? code - TOP : (1n << 64n) - 1n - code);
    return String(view.getFloat64(0));
  },
};

const KINDS = { "hi lo": numbers, "hi lo step": numbers, "from to": days, values, ordered: values, floats }; // by their other keys

function shown(value) {
  if (value.bottom === 1n) return `${value.top}`;
  let power = 1n;
  while (power % value.bottom) power *= 10n;
  const digits = power.toString().length - 1;
  const whole = (value.top * power) / value.bottom;
  const text = (whole < 0n ? -whole : whole).toString().padStart(digits + 1, "0");
  return `${whole < 0n ? "-" : ""}${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

/** A named column of a manifest. */
export class Column {
  constructor(entry) {
    if (!(entry instanceof Map) || typeof entry.get("name") !== "string" || !entry.get("name"))
      throw new ManifestError("a feature needs a name");
    const keys = [...entry.keys()].filter((key) => key !== "name").sort().join(" ");
    this.name = entry.get("name");
    this.kind = Object.hasOwn(KINDS, keys) ? KINDS[keys] : null;
    if (!this.kind)
      throw new ManifestError(
        "a feature has lo and hi and perhaps step, or from and to, or values, or ordered, or floats = 64",
      );
    Object.assign(this, this.kind.read(entry));
  }
  /** The code of a value, or INVALID. */
  code(value) {
    if (value === null || value === undefined || typeof value === "symbol") return INVALID;
    return this.kind.code(this, typeof value === "boolean" ? (this.values ? value : Number(value)) : value);
  }
  /** The value of a code, in words. */
  text(code) {
    return this.kind.text(this, BigInt(code));
  }
}

const LABELS = new Map([["0", 0], ["1", 1], ["0.0", 0], ["1.0", 1], ["false", 0], ["true", 1]]);

function labelOf(value) {
  if (typeof value === "string") return LABELS.get(value.trim().toLowerCase()) ?? -1;
  if (value === true || value === 1 || value === 1n) return 1;
  return value === false || value === 0 || value === 0n ? 0 : -1;
}

/** A column that is missing, or written differently, is an error on the device: its records would all be dropped. */
export function checkColumns(columns, label, header) {
  const known = new Set(header);
  for (const name of [...columns.map((column) => column.name), label]) {
    if (known.has(name)) continue;
    const plain = (text) => text.trim().toLowerCase();
    const alike = [...known].find((text) => plain(text) === plain(name));
    throw new ParameterError(
      `the records have no column '${name}'${alike ? `; there is '${alike}'` : ""}; nothing was drawn or sent`,
    );
  }
}

/** The valid records, as codes and labels: at most the first `limit`. Only the shape can be wrong, never a value. */
export function encode(columns, label, records, limit) {
  const listed = [...records];
  if (listed.length) checkColumns(columns, label, listed.flatMap((record) => Object.keys(record)));
  const out = { x: [], y: [] };
  for (const record of listed) {
    if (out.y.length >= limit) break;
    const own = (name) => (Object.hasOwn(record, name) ? record[name] : undefined);
    const codes = columns.map((column) => column.code(own(column.name)));
    const mark = labelOf(own(label));
    if (mark < 0 || codes.some((code) => code < 0n)) continue;
    out.x.push(codes);
    out.y.push(mark);
  }
  return out;
}
