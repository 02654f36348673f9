// The page of consent.html. Addresses: ?collector=https://...&name=ann, a token and the coordinator's fingerprint in the
// fragment (#token=...&coordinator=...), which no server sees. Without a collector the page's own origin is asked.
//
// Whose run it is is never taken from the collector alone: the coordinator's key stands in this page (its meta element),
// was confirmed on this device before, or the person confirms the fingerprint that came with the invitation.

import {
  browserStore,
  Client,
  Device,
  describe,
  fingerprint,
  ManifestError,
  odds,
  ParameterError,
  PrivpacError,
  published,
  readCsv,
  sent,
  submit,
  told,
} from "./src/index.js";

const at = (id) => document.getElementById(id);
const show = (id, visible = true) => (at(id).hidden = !visible);
const say = (id, text) => (at(id).textContent = text);
const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

const query = new URLSearchParams(location.search);
const collector = query.get("collector") ?? location.origin;
const store = browserStore();
let [client, device, records] = [null, null, null];
const secret = new URLSearchParams(location.hash.slice(1));
let token = secret.get("token");
if (location.hash) history.replaceState(null, "", location.pathname + location.search);
const SECTIONS = ["asks", "mine", "budget", "tells", "decide"];

/** Errors of ours are words for people; of others only that there was one. */
function trouble(error) {
  say("trouble", error instanceof PrivpacError ? error.message : `Something went wrong on this page (${error?.name}). Nothing was sent.`);
  show("trouble");
  at("trouble").scrollIntoView({ block: "center" });
}

/** One thing after another, each told if it goes wrong. */
let before = Promise.resolve();
const guarded = (work) => () =>
  (before = before.then(async () => {
    show("trouble", false);
    try {
      await work();
    } catch (error) {
      trouble(error);
    }
  }));

const RULES = {
  threshold: "a cut-off: from which value on",
  "threshold-below": "a cut-off: below which value",
  stump: "one column and a cut-off",
  point: "one value",
  "hashed-point": "one value among very many",
  interval: "a range of values",
  parity: "an odd number of some columns",
  conjunction: "what must all hold",
  disjunction: "what of which one must hold",
  "decision-list": "a list of ifs",
  halfspace: "points for every column",
  "naive-bayes": "points for every value",
};
const MODELS = {
  local: "local: noise is added on this device",
  shuffle: "shuffle: messages of many people are mixed",
  central: "central: an analyzer reads your own rule",
};

function asked({ manifest }) {
  const entries = {
    "Signed by": fingerprint(manifest.coordinator),
    "Collected by": collector,
    "Wants to know": `when “${manifest.label}” is 1, from ${manifest.columns.map((column) => `“${column.name}”`).join(", ")}`,
    "As a rule": RULES[manifest.rule],
    "How it protects": MODELS[manifest.protocol],
    Run: hexOf(manifest.run.subarray(0, 8)),
  };
  at("asked").replaceChildren(
    ...Object.entries(entries).flatMap(([name, text]) => {
      const [term, value] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = name;
      value.textContent = text;
      return [term, value];
    }),
  );
}

function dots(id, yes) {
  at(id).replaceChildren(
    ...Array.from({ length: 100 }, (_, place) => {
      const dot = document.createElement("i");
      if (place < yes) dot.className = "yes";
      return dot;
    }),
  );
}

function reveals({ manifest }) {
  const { guess, factor, delta } = odds(manifest);
  say("sent", sent(manifest));
  say("told", told(manifest));
  const who = manifest.protocol === "local" ? "sees your message" : manifest.protocol === "shuffle" ? "sees all mixed messages" : "sees what is published";
  say(
    "odds",
    `Suppose someone who ${who} wants to know which of two stories about your records is true, and before that both seemed ` +
      `equally likely. Whatever the two stories are, they guess right in at most ${guess} of 100 cases; without your message ` +
      `it would be 50. Nothing that they might see is more than ${factor} times as likely with one story as with the other.`,
  );
  dots("coin", 50);
  dots("guess", Math.floor(parseFloat(guess.replace(/[^0-9.]/g, ""))));
  say("guessed", `right with what this run shows: at most ${guess} of 100`);
  at("chances").setAttribute("aria-label", `A coin is right 50 times of 100, a guess from this run at most ${guess} times.`);
  show("small", delta > 0);
  if (delta > 0) say("small", `The promise may fail altogether with a probability of at most ${Number(delta.toPrecision(2))}: 1 in ${Math.round(1 / delta).toLocaleString("en")}.`);
}

async function budget() {
  device = await Device.find(store);
  show("newcomer", device === null);
  show("slacks", client.manifest.delta.top > 0n);
  show("known", device !== null);
  if (device === null) return ready();
  device.agrees(client.manifest, query.get("name"));
  const [spent, kept] = [await device.spent(), await device.kept(client.manifest)];
  const number = (ratio) => Number(ratio.top) / Number(ratio.bottom);
  const [used, total] = [number(spent.epsilon), number(device.epsilon)];
  const cost = kept ? 0 : number(client.manifest.epsilon);
  at("before").style.width = `${(100 * used) / total}%`;
  at("now").style.width = `${Math.min(100 - (100 * used) / total, (100 * cost) / total)}%`;
  say(
    "spent",
    kept
      ? `${device.person}, you took part in this run already: the same message can be sent again at no cost. ${spent.epsilon} of your total ε = ${device.epsilon} is spent.`
      : `${device.person}, ${spent.epsilon} of your total ε = ${device.epsilon} is spent; this run takes ${client.manifest.epsilon}.`,
  );
  if (!kept) device.afford(client.manifest, spent);
  ready(kept !== null);
}

function ready(kept = false) {
  const open = device !== null && (records !== null || kept);
  at("send").disabled = at("show").disabled = !open;
  say("hint", open ? "" : device === null ? "Keep a total first." : "Choose your records first.");
}

at("make").onclick = guarded(async () => {
  const accepts = client.manifest.protocol === "central" ? ["local", "shuffle", "central"] : ["local", "shuffle"];
  const delta = at("slacks").hidden ? "0" : at("slack").value.trim();
  const coordinators = [client.manifest.coordinator];
  await Device.create(store, { person: at("person").value.trim(), epsilon: at("total").value.trim(), delta, accepts, coordinators });
  await budget();
});

at("records").onchange = guarded(async () => {
  records = null;
  show("rule", false);
  const read = readCsv(await at("records").files[0].text());
  const item = client.item(read);
  records = read;
  say("found", `${read.length} records were read on this device.`);
  say(
    "rule",
    item === null
      ? "There is too little to say: your device will send what nobody can tell from any other message."
      : `They lead to this rule: ${describe(client.manifest, item)}. ${client.manifest.protocol === "central" ? "The analyzer will read it." : "It does not leave the device as it is."}`,
  );
  show("rule");
  await budget();
});

const drawn = async () => client.messages(records ?? [], device, query.get("name"));

function result(text, messages) {
  say("said", text);
  say("bytes", messages.map(hexOf).join("\n"));
  show("result");
  at("result").scrollIntoView({ block: "nearest" });
}

at("show").onclick = guarded(async () => {
  const { messages } = await drawn();
  result(`Drawn, charged to your total, and kept on this device. Nothing was sent yet. ${messages.length === 1 ? "This is the message" : `These are the ${messages.length} messages`}:`, messages);
  await budget();
});

at("send").onclick = guarded(async () => {
  const { messages } = await drawn();
  await submit(collector, device.person, messages, client.manifest.run, token ?? at("token").value.trim());
  result(`Sent. The collector has confirmed it. ${messages.length === 1 ? "This is what left the device" : `These ${messages.length} messages left the device`}:`, messages);
  await budget();
});

at("leave").onclick = () => {
  for (const id of SECTIONS) show(id, false);
  say("trouble", "You do not take part. Nothing was sent, and nothing was charged by leaving.");
  show("trouble");
};

/** What is asked, once it is known whose run it is. */
async function ask() {
  show("whose", false);
  asked(client);
  reveals(client);
  for (const id of SECTIONS) show(id);
  show("tokened", !token);
  at("person").value = query.get("name") ?? "";
  const own = await Device.find(store);
  if (own && !own.coordinators.some((key) => fingerprint(key) === fingerprint(client.manifest.coordinator)))
    await own.trust(client.manifest.coordinator);
  await budget();
}

const digits = (text) => text.toLowerCase().replace(/[\s-]/g, "");

at("confirm").onclick = guarded(async () => {
  const mark = digits(at("mark").value);
  if (!/^[0-9a-f]{32}$/.test(mark))
    throw new ParameterError("A fingerprint has 32 letters and digits (0 to 9, a to f), in eight groups of four.");
  if (mark !== digits(fingerprint(client.manifest.coordinator)))
    throw new ManifestError(
      "This run was not signed by those who invited you: somebody in between may have changed it. Do not take part; ask the " +
        "people who invited you. Nothing was sent.",
    );
  await ask();
});

await guarded(async () => {
  client = new Client(await published(collector));
  const { coordinator } = client.manifest;
  if (coordinator === null)
    throw new ManifestError(
      "This run is not signed, so anyone in between could have changed it. Ask the people who invited you. Nothing was sent.",
    );
  const vouched = document.querySelector("meta[name=privpac-coordinator]")?.content;
  if (vouched && vouched !== hexOf(coordinator))
    throw new ManifestError(
      "This run was not signed by those who serve this page: somebody in between may have changed it. Nothing was sent.",
    );
  const own = await Device.find(store);
  if (vouched || own?.coordinators.some((key) => hexOf(key) === hexOf(coordinator))) return ask();
  at("mark").value = digits(secret.get("coordinator") ?? "").replace(/(.{4})(?=.)/g, "$1 ");
  show("linked", Boolean(secret.get("coordinator")));
  show("whose");
})();
document.documentElement.dataset.ready = "yes";
