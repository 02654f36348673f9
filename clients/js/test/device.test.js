// The person's store: a total over all runs, the same bytes again, and nothing that is lost silently.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ed25519 } from "@noble/curves/ed25519.js";
import { ascii, concat, hex, utf8 } from "../src/bytes.js";
import { BudgetExhausted, Client, Device, describe, Manifest, memoryStore, odds, readCsv, sent } from "../src/index.js";
import { fileStore } from "../src/stores/file.js";
import { digest } from "../src/words.js";

const VECTORS = JSON.parse(readFileSync(new URL("../../../docs/wire-vectors.json", import.meta.url), "utf8"));
const runOf = (name) => VECTORS.runs.find((run) => run.name === name);
const LOCAL = runOf("local threshold");

/** The same run under other seeds: every one is a run of its own. */
const another = (number) => LOCAL.manifest.replace(/"seed":"[0-9a-f]{64}"/, `"seed":"${String(number).padStart(64, "0")}"`);

/** A published manifest: signed with the coordinator's key, or another one. */
const SECRET = new Uint8Array(32).fill(7);
const KEY = ed25519.getPublicKey(SECRET);
const signed = (text, secret = SECRET) => {
  const signature = ed25519.sign(concat(ascii("privpac manifest v1\0"), ascii(text)), secret);
  return `{"coordinator":"${hex(ed25519.getPublicKey(secret))}","manifest":${text},"signature":"${hex(signature)}"}`;
};
const made = (storage, options) => Device.create(storage, { coordinators: [KEY], ...options });

const folder = (t) => {
  const made = mkdtempSync(join(tmpdir(), "privpac-"));
  t.after(() => rmSync(made, { recursive: true }));
  return made;
};

for (const [name, storage] of [["memory", () => memoryStore()], ["file", (t) => fileStore(join(folder(t), "store"))]]) {
  test(`${name}: 150 runs against a total of 1 are refused after the first`, async (t) => {
    const device = await made(storage(t), { person: "ann", epsilon: "1" });
    let sentRuns = 0;
    for (let number = 0; number < 150; number++) {
      const drawn = new Client(signed(another(number))).messages(LOCAL.records, device);
      if (number === 0) sentRuns += (await drawn).messages.length;
      else await assert.rejects(drawn, BudgetExhausted);
    }
    assert.equal(sentRuns, 1);
    assert.equal(`${(await device.spent()).epsilon}`, "1");
  });

  test(`${name}: the same bytes again, whatever the records, at no cost`, async (t) => {
    const place = storage(t);
    const device = await made(place, { person: "ann", epsilon: "3/2" });
    const client = new Client(signed(LOCAL.manifest));
    const first = await client.messages(LOCAL.records, device);
    const second = await client.messages([], await Device.open(place));
    assert.deepEqual(second, { messages: first.messages, again: true });
    assert.equal(`${(await device.spent()).epsilon}`, "1");
    await assert.rejects(new Client(signed(another(7))).messages(LOCAL.records, device), BudgetExhausted);
  });

  test(`${name}: two at the same time draw one message`, async (t) => {
    const place = storage(t);
    const device = await made(place, { person: "ann", epsilon: "1" });
    const client = new Client(signed(LOCAL.manifest));
    const both = await Promise.all([1, 2, 3].map(() => client.messages(LOCAL.records, device)));
    assert.equal(new Set(both.map(({ messages }) => hex(messages[0]))).size, 1);
    assert.equal((await place.read())[1].runs.length, 1);
  });

  test(`${name}: a store is made once, and never silently`, async (t) => {
    const place = storage(t);
    await assert.rejects(Device.open(place), /there is no store here/);
    await made(place, { person: "ann", epsilon: "1" });
    await assert.rejects(made(place, { person: "eve", epsilon: "9" }), /a total is never changed/);
    const client = new Client(signed(LOCAL.manifest));
    await assert.rejects(client.messages([], await Device.open(place), "eve"), /belongs to 'ann', not to 'eve'/);
  });
}

test("a device joins what its person accepts, sealed", async () => {
  const central = new Client(signed(runOf("central, sealed").manifest));
  const device = await made(memoryStore(), { person: "ann", epsilon: "5", delta: "1/1000" });
  await assert.rejects(central.messages([], device), /a central run and the device accepts local, shuffle/);
  const open = new Client(signed(runOf("shuffle threshold").manifest));
  await assert.rejects(open.messages([], device), /names no analyzer's key/);
  const agreed = await made(memoryStore(), { person: "b", epsilon: "5", delta: "1/1000", accepts: ["central"] });
  const { messages } = await central.messages(runOf("central, sealed").records, agreed);
  assert.equal(messages[0].length, central.manifest.messageBytes);
  await assert.rejects(made(memoryStore(), { person: "c", epsilon: "0" }), /epsilon > 0/);
  await assert.rejects(made(memoryStore(), { person: "c", epsilon: "1", accepts: ["all"] }), /got all/);
});

test("a shuffled run is charged in delta, too", async () => {
  const client = new Client(signed(runOf("shuffle threshold").manifest));
  const make = (delta) => made(memoryStore(), { person: "ann", epsilon: "1", delta, unsealed: true });
  await assert.rejects(client.messages([], await make("0")), /asks for delta = 1\/1000000/);
  const { messages } = await client.messages(runOf("shuffle threshold").records, await make("1/1000000"));
  assert.ok(messages.length >= 1 && messages.length <= client.manifest.mostMessages);
});

const runs = async (home) => {
  const device = await made(fileStore(home), { person: "ann", epsilon: "5" });
  for (const text of [LOCAL.manifest, another(1)]) await new Client(signed(text)).messages(LOCAL.records, device);
  return device;
};

test("an emptied or damaged store is an error, never a new beginning", async (t) => {
  const client = new Client(signed(LOCAL.manifest));
  const spoiled = async (spoil, said, make = null) => {
    const home = join(folder(t), "store");
    const device = await runs(home);
    assert.deepEqual(readdirSync(home), ["store-000000002.json"]);
    spoil(home, join(home, "store-000000002.json"));
    for (const use of [() => client.messages([], device), () => Device.open(fileStore(home)).then((own) => client.messages([], own))])
      await assert.rejects(use(), said);
    if (make) await assert.rejects(made(fileStore(home), { person: "ann", epsilon: "5" }), make);
  };
  const rewritten = (change) => (_, path) => {
    const text = change(readFileSync(path, "utf8").split("\n")[1]);
    writeFileSync(path, `${hex(digest(utf8(text)))}\n${text}\n`);
  };
  await spoiled((_, path) => writeFileSync(path, ""), /emptied or damaged/, /there is a store already/);
  await spoiled((_, path) => writeFileSync(path, readFileSync(path, "utf8").slice(0, -40)), /emptied or damaged/);
  await spoiled((_, path) => writeFileSync(path, readFileSync(path, "utf8").replace(/"runs":.*\]/, '"runs":[]')), /emptied or damaged/);
  await spoiled((home) => readdirSync(home).forEach((name) => rmSync(join(home, name))), /there is no store here/);
  await spoiled((home) => rmSync(home, { recursive: true }), /there is no store here/);
  await spoiled(rewritten(() => "{}"), /emptied or damaged/);
  await spoiled(rewritten((text) => text.replace(/"messages":\["../, '"messages":["00')), /damaged; nothing was sent/);
});

test("a state that is behind a later one is not written", async (t) => {
  const home = join(folder(t), "store");
  await runs(home);
  const place = fileStore(home);
  for (const number of [0, 1, 2, 4]) assert.equal(await place.write(number, { v: 2 }), false);
  const [number, state] = await place.read();
  assert.deepEqual([number, state.runs.length, readdirSync(home).length], [2, 2, 1]);
  // A program that died before it took the older one away.
  writeFileSync(join(home, "store-000000001.json"), "");
  assert.equal((await place.read())[1].runs.length, 2);
  assert.deepEqual(readdirSync(home), ["store-000000002.json"]);
});

test("thirty programs at once draw one message for each run", async (t) => {
  const home = join(folder(t), "store");
  await made(fileStore(home), { person: "ann", epsilon: "3" });
  const found = await Promise.all(
    Array.from({ length: 30 }, async (_, i) => {
      const device = await Device.open(fileStore(home));
      return `${i % 3} ${hex((await new Client(signed(another(i % 3))).messages([], device)).messages[0])}`;
    }),
  );
  assert.equal(new Set(found).size, 3);
  assert.equal(`${(await (await Device.open(fileStore(home))).spent()).epsilon}`, "3");
});

test("a store takes the runs of coordinators it trusts, and draws nothing for others", async () => {
  const eve = new Uint8Array(32).fill(8);
  for (const text of [LOCAL.manifest, signed(LOCAL.manifest, eve)]) {
    const place = memoryStore();
    const device = await made(place, { person: "ann", epsilon: "1" });
    await assert.rejects(
      device.messages(new Manifest(text), () => assert.fail("drawn")),
      text.startsWith('{"coordinator"') ? /is signed with the key .* and this store trusts/ : /is not signed/,
    );
    assert.equal((await place.read())[1].runs.length, 0);
  }
  const device = await made(memoryStore(), { person: "ann", epsilon: "1", coordinators: [] });
  await assert.rejects(new Client(signed(LOCAL.manifest)).messages([], device), /this store trusts none/);
  const trusting = await (await device.trust(KEY)).trust(ed25519.getPublicKey(eve));
  const first = await new Client(signed(LOCAL.manifest)).messages([], trusting);
  assert.equal(first.again, false);
  // The same bytes signed by another: consent was given to one coordinator.
  await assert.rejects(new Client(signed(LOCAL.manifest, eve)).messages([], trusting), /answered for the coordinator/);
  await assert.rejects(made(memoryStore(), { person: "a", epsilon: "1", coordinators: [new Uint8Array(32)] }), /is no key/);
});

test("processes that are killed at any moment never draw a second message", async (t) => {
  const home = join(folder(t), "store");
  await made(fileStore(home), { person: "ann", epsilon: "1" });
  const script = `
    import { readFileSync } from "node:fs";
    import { hex } from ${JSON.stringify(new URL("../src/bytes.js", import.meta.url).href)};
    import { Client, Device } from ${JSON.stringify(new URL("../src/index.js", import.meta.url).href)};
    import { fileStore } from ${JSON.stringify(new URL("../src/stores/file.js", import.meta.url).href)};
    const device = await Device.open(fileStore(${JSON.stringify(home)}));
    const found = await new Client(${JSON.stringify(signed(LOCAL.manifest))}).messages([], device);
    process.stdout.write(hex(found.messages[0]));`;
  const seen = new Set();
  await Promise.all(
    Array.from({ length: 8 }, (_, number) => {
      const child = spawn(process.execPath, ["--input-type=module", "-e", script]);
      let said = "";
      child.stdout.on("data", (part) => (said += part));
      if (number % 2) setTimeout(() => child.kill("SIGKILL"), 60 * number);
      return new Promise((resolve) => child.on("close", () => resolve(said.length === 40 && seen.add(said))));
    }),
  );
  assert.equal(seen.size, 1);
});

test("a missing or differently spelt column is an error, and nothing is charged", async () => {
  const device = await made(memoryStore(), { person: "ann", epsilon: "1" });
  const client = new Client(signed(LOCAL.manifest));
  await assert.rejects(client.messages([{ Age: 3, ill: 1 }], device), /no column 'age'; there is 'Age'/);
  await assert.rejects(client.messages([{ age: 3 }], device), /no column 'ill'/);
  assert.equal(`${(await device.spent()).epsilon}`, "0");
});

test("what a person is told", () => {
  const { manifest } = new Client(signed(LOCAL.manifest));
  assert.match(sent(manifest), /One message of 20 bytes, readable by whoever carries it.* 73\.1 of 100 cases/);
  assert.deepEqual(odds(manifest), { guess: "73.1", factor: "2.72", delta: 0 });
  const { guess, factor } = odds(new Client(signed(runOf("central threshold").manifest)).manifest); // add-remove: two steps
  assert.deepEqual([guess, factor], ["88.1", "7.39"]);
  for (const run of VECTORS.runs) {
    const client = new Client(signed(run.manifest));
    const item = client.item(run.records);
    const said = describe(client.manifest, item);
    assert.ok(said.includes("ill") && !said.includes("undefined") && !said.includes("NaN"), said);
  }
  assert.equal(describe(manifest, Uint8Array.of(0x2a)), "ill is 1 when age is at least 42");
  assert.equal(describe(manifest, Uint8Array.of(100)), "ill is 1: never");
});

test("CSV files", () => {
  assert.deepEqual(readCsv('\ufeffage,"i,ll"\r\n3,1\r\n"4""","\n"\n\n'), [
    { age: "3", "i,ll": "1" },
    { age: '4"', "i,ll": "\n" },
  ]);
  assert.deepEqual(readCsv(""), []);
  assert.throws(() => readCsv('a\n"x'), /not closed/);
});
