// Bit for bit the same as every other client: docs/wire-vectors.json.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { hex, ManifestError, unhex } from "../src/bytes.js";
import { Client } from "../src/client.js";
import { Column } from "../src/columns.js";
import { readJson } from "../src/json.js";
import { canonicalList } from "../src/learners/lists.js";
import { PackedLists } from "../src/learners/universe.js";
import { Manifest } from "../src/manifest.js";
import { bundle } from "../src/messages.js";
import { seal } from "../src/seal.js";
import { fingerprint } from "../src/signature.js";
import { learnerOf } from "../src/tasks.js";
import { told } from "../src/told.js";
import { Draws } from "../src/words.js";

const VECTORS = JSON.parse(readFileSync(new URL("../../../docs/wire-vectors.json", import.meta.url), "utf8"));

const given = (words) => {
  const left = words.map(BigInt);
  return new Draws(() => {
    assert.ok(left.length, "more words were drawn than are given");
    return left.shift();
  });
};

for (const run of VECTORS.runs)
  test(`run: ${run.name}`, () => {
    const client = new Client(run.manifest);
    assert.equal(hex(client.manifest.run), run.run_id);
    assert.equal(new TextDecoder().decode(client.manifest.bytes), run.manifest);
    const item = client.item(run.records);
    assert.equal(item === null ? "" : hex(item), run.item);
    if (item) assert.equal(`${client.manifest.learner.universe.number(item)}`, run.number);
    assert.equal(`${client.manifest.learner.universe.size}`, run.universe);
    assert.equal(client.manifest.messageBytes, run.message_bytes_on_the_wire);
    assert.deepEqual(client.plain(item, given(run.words)).map(hex), run.messages);
    assert.deepEqual(client.plain(null, given(run.words)).map(hex), run.messages_of_nothing_to_say);
    if (run.told) assert.equal(told(client.manifest), run.told);
  });

for (const { name, kind, run_id, analyzer_public, ephemeral_private, message, sealed } of VECTORS.seal)
  test(`seal: ${name}`, () => {
    const found = seal(unhex(run_id), kind, unhex(analyzer_public), unhex(message), unhex(ephemeral_private));
    assert.equal(hex(found), sealed);
  });

for (const { name, published, accepted, public: key, fingerprint: shown, run_id } of VECTORS.signatures)
  test(`signature: ${name}`, () => {
    if (!accepted) return assert.throws(() => new Manifest(published), ManifestError);
    const manifest = new Manifest(published);
    assert.equal(hex(manifest.coordinator), key);
    assert.equal(fingerprint(manifest.coordinator), shown);
    assert.equal(hex(manifest.run), run_id);
  });

for (const { column, size, values, codes } of VECTORS.columns)
  test(`column: ${JSON.stringify(column)}`, () => {
    const read = new Column(readJson(JSON.stringify(column)));
    assert.equal(`${read.size}`, size);
    assert.deepEqual(values.map((value) => `${read.code(value)}`), codes);
  });

test("canonical lists and weights", () => {
  for (const { columns, rules, default: last, form, number_of_4_rules } of VECTORS.forms.lists) {
    assert.deepEqual(canonicalList(columns, rules, last), form);
    const item = Uint8Array.from([...form[0].flatMap(([test, label]) => [test & 255, test >> 8, label]), form[1]]);
    assert.equal(`${new PackedLists(7, 4).number(item)}`, number_of_4_rules);
  }
  for (const { sizes, scale, weights, form, item } of VECTORS.forms.weights) {
    const learner = learnerOf("halfspace", sizes.map(BigInt), new Map(), { mMin: 1n, mCap: 1n });
    assert.equal(learner.most, BigInt(scale));
    const found = learner.form(weights.slice(0, -1).map(BigInt), BigInt(weights.at(-1)));
    assert.deepEqual([...found[0], found[1]].map(Number), form);
    assert.equal(hex(learner.pack(...found)), item);
  }
});

test("bundles", () => {
  assert.equal(hex(bundle(VECTORS.files.messages.map(unhex))), VECTORS.files.bundle);
});
