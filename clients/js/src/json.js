// JSON of strings, integers, lists and objects, and the canonical bytes that stand for it. The language's own parser
// rounds integers beyond 2^53 and takes the last of two equal keys, so manifests have a reader of their own.

import { ManifestError } from "./bytes.js";

const DEEPEST = 9; // of a signed manifest, which is one level deeper
const DIGITS = 4300;
const REFUSED = "the manifest is not JSON of strings and integers";

/** The value of a JSON text; objects are Maps, integers BigInts. Floats, booleans, nulls and repeated keys are refused. */
export function readJson(text) {
  let at = 0;
  const refuse = () => {
    throw new ManifestError(REFUSED);
  };
  const space = () => {
    while (" \t\n\r".includes(text[at] ?? "x")) at++;
  };
  const take = (letter) => {
    space();
    if (text[at] !== letter) return false;
    at++;
    return true;
  };
  const string = () => {
    const start = at++;
    while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
    at++;
    try {
      return JSON.parse(text.slice(start, at));
    } catch {
      return refuse();
    }
  };
  const value = (depth) => {
    if (depth > DEEPEST) throw new ManifestError("the manifest is nested too deeply");
    space();
    if (text[at] === '"') return string();
    if (take("{")) {
      const out = new Map();
      if (take("}")) return out;
      do {
        space();
        if (text[at] !== '"') refuse();
        const key = string();
        if (out.has(key) || !take(":")) refuse();
        out.set(key, value(depth + 1));
      } while (take(","));
      return take("}") ? out : refuse();
    }
    if (take("[")) {
      const out = [];
      if (take("]")) return out;
      do out.push(value(depth + 1));
      while (take(","));
      return take("]") ? out : refuse();
    }
    const found = /^-?(0|[1-9][0-9]*)(?![0-9.eE])/.exec(text.slice(at, at + DIGITS + 2));
    if (!found || found[0].length > DIGITS) refuse();
    at += found[0].length;
    return BigInt(found[0]);
  };
  const out = value(0);
  space();
  return at === text.length ? out : refuse();
}

function byPoint(a, b) {
  const left = Array.from(a, (letter) => letter.codePointAt(0));
  const right = Array.from(b, (letter) => letter.codePointAt(0));
  for (let i = 0; i < Math.min(left.length, right.length); i++) if (left[i] !== right[i]) return left[i] - right[i];
  return left.length - right.length;
}

const SHORT = { '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\b": "\\b" };
const written = (text) =>
  `"${text.replace(/["\\]|[^ -~]/g, (unit) => SHORT[unit] ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)}"`;

/** The canonical text: keys sorted by code point, no spaces, ASCII. */
export function canonical(value) {
  if (typeof value === "string") return written(value);
  if (typeof value === "bigint") return value.toString();
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  return `{${[...value.keys()]
    .sort(byPoint)
    .map((key) => `${written(key)}:${canonical(value.get(key))}`)
    .join(",")}}`;
}
