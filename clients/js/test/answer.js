// Answers for the tests of another language: a JSON list of {manifest, records, words} on standard input, what this
// client makes of each on standard output.

import { hex, PrivpacError } from "../src/bytes.js";
import { Client } from "../src/client.js";
import { Draws } from "../src/words.js";

const given = (words) => {
  let at = 0;
  return new Draws(() => BigInt(words[at++]));
};

// Integers of records may exceed 2^53: those come as objects {"integer": text}.
const value = (found) => (found !== null && typeof found === "object" ? BigInt(found.integer) : found);

function answer({ manifest, records, words }) {
  const before = process.cpuUsage();
  const seconds = () => (({ user, system }) => (user + system) / 1e6)(process.cpuUsage(before));
  let client;
  try {
    client = new Client(manifest);
  } catch (error) {
    if (!(error instanceof PrivpacError)) throw error;
    return { refused: error.message, seconds: seconds() };
  }
  if (!records) return { run: hex(client.manifest.run), seconds: seconds() };
  const item = client.item(
    records.map((record) => Object.fromEntries(Object.entries(record).map(([name, found]) => [name, value(found)]))),
  );
  return {
    run: hex(client.manifest.run),
    item: item === null ? null : hex(item),
    messages: client.plain(item, given(words)).map(hex),
    silent: client.plain(null, given(words)).map(hex),
  };
}

let text = "";
for await (const part of process.stdin.setEncoding("utf8")) text += part;
process.stdout.write(JSON.stringify(JSON.parse(text).map(answer)));
