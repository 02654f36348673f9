"use strict";

const find = (id) => document.getElementById(id);
const show = (id, shown = true) => (find(id).hidden = !shown);
const count = (number) => number.toLocaleString("en");
const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

let key = null;
let operator = false;
let timer = null;

// Talking to the service

class Problem extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function call(path, method = "GET", body = undefined) {
  const headers = { Accept: "application/json" };
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response, answer;
  try {
    response = await fetch(path, { method, headers, body, cache: "no-store", credentials: "omit", redirect: "error" });
    answer = await response.json();
  } catch {
    throw new Problem(0, "The service cannot be reached. Try again later: a query that was counted is never counted twice.");
  }
  if (!response.ok) throw new Problem(response.status, answer.detail);
  return answer;
}

function make(tag, text = "", attributes = {}) {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function trouble(problem) {
  if (problem?.status === 401 && key !== null) {
    signOut("This key does not work any more. Sign in with another one.");
    return;
  }
  find("trouble").textContent = problem ? problem.message : "";
  show("trouble", Boolean(problem));
}

// The guarantee

async function showPromise() {
  const promise = await call("/guarantee");
  find("promise").textContent = `All ${plural(promise.queries, "answer")} together: ${promise.summary}`;
  const person = promise.unit === "user";
  find("whom").textContent = person ? "every person in the data, with all records of that person" : "every single record in the data";
  const [, ...words] = promise.explanation.split("\n");
  find("promise").classList.toggle("weak", ["weak", "empty"].includes(promise.strength));
  const technical = words.filter((line) => /^(The same run|How:)/.test(line));
  find("what").textContent = words.filter((line) => !technical.includes(line)).join(" ");
  const facts = { "kind of rule": promise.rule, "an answer 1 means": promise.label };
  for (const feature of promise.features) facts[`column ${feature.name}`] = feature.domain;
  Object.assign(facts, { guarantee: technical.join(" "), epsilon: promise.epsilon, delta: promise.delta, neighbours: promise.neighbours }, promise.parameters);
  find("facts").replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [make("dt", name), make("dd", value)]));
  show("words");
  find("ask-fields").replaceChildren(...promise.features.map(field));
}

// One query

function field(feature, index) {
  const id = `feature-${index}`;
  let input;
  if (feature.choices !== null) {
    input = make("select");
    input.append(...feature.choices.map((choice) => make("option", choice, { value: choice })));
  } else if (["integers", "grid", "floats"].includes(feature.kind)) {
    input = make("input", "", { type: "number", step: feature.kind === "integers" ? "1" : "any" });
  } else if (feature.kind === "dates") {
    input = make("input", "", { type: "date" });
  } else {
    input = make("input", "", { type: "text", maxlength: "200", spellcheck: "false" });
  }
  if (input.type === "number" || input.type === "date") {
    if (feature.low !== null) input.setAttribute("min", feature.low);
    if (feature.high !== null) input.setAttribute("max", feature.high);
  }
  for (const [name, value] of Object.entries({ id, required: "", "aria-describedby": `${id}-domain` })) input.setAttribute(name, value);
  input.dataset.feature = feature.name;
  const box = make("div", "", { class: "field" });
  box.append(make("label", feature.name, { for: id }), make("small", feature.kind === "floats" ? "any number" : feature.domain, { id: `${id}-domain` }), input);
  return box;
}

// A number goes out as it was typed: whole numbers may be longer than this language can count.
function record() {
  const parts = [];
  for (const input of find("ask-fields").querySelectorAll("[data-feature]")) {
    const text = input.value.trim();
    const plain = input.type === "number" && /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text);
    const value = plain ? text : JSON.stringify(input.type === "number" ? Number(text) : text);
    parts.push(`${JSON.stringify(input.dataset.feature)}: ${value}`);
  }
  return `{"records": [{${parts.join(", ")}}]}`;
}

async function ask(event) {
  event.preventDefault();
  find("ask-problem").textContent = "";
  show("answer", false);
  find("ask-button").disabled = true;
  try {
    const before = await call("/budget");
    const { answers, label } = await call("/predict", "POST", record());
    const after = await showBudget();
    const cost = after.key_used - before.key_used;
    const price = cost > 0 ? "It cost one answer of the budget." : "It was asked before: no cost.";
    find("answer").replaceChildren(make("strong", `${label === "1" ? "Answer" : label}: ${answers[0] === 1 ? "yes (1)" : "no (0)"}`), ` ${price}`);
    show("answer");
    await showOperator();
  } catch (problem) {
    if (problem.status === 401) trouble(problem);
    else find("ask-problem").textContent = problem.message;
    if (problem.status === 429) await refresh();
  } finally {
    find("ask-button").disabled = false;
  }
}

// Budget and its history

async function showBudget() {
  const budget = await call("/budget");
  operator = budget.role === "operator";
  find("left").textContent = count(budget.remaining);
  find("left-text").textContent = `of ${plural(budget.queries, "answer")} left`;
  find("budget-bar").value = budget.used / budget.queries;
  const own = budget.share === null ? "This key has no limit of its own." : `Its share is ${count(budget.share)}.`;
  find("budget-text").textContent = `${count(budget.used)} used, ${count(budget.key_used)} of them by this key. ${own}`;
  let over = "";
  if (budget.remaining === 0) over = "The budget is exhausted: no new query will be answered. Queries that were answered before stay free.";
  else if (budget.key_remaining === 0) over = "The share of this key is used up: no new query will be answered to it. Queries that were answered before stay free.";
  if (find("exhausted").textContent !== over) find("exhausted").textContent = over;
  show("exhausted", over !== "");
  find("who").textContent = `Signed in as ${budget.key}`;
  show("budget");
  return budget;
}

let drawing = null;

async function showHistory() {
  const history = await call("/console/api/history");
  const length = { minute: 60e3, hour: 3600e3, day: 86400e3 }[history.step];
  let left = history.queries;
  const spans = history.answers.map((span) => {
    const time = span.start + { minute: "", hour: ":00", day: "T00:00" }[history.step];
    return { words: span.start.replace("T", " "), begin: Date.parse(`${time}Z`), answers: span.answers, left: (left -= span.answers) };
  });
  find("history-rows").replaceChildren(
    ...spans.slice(-100).reverse().map((span) => {
      const row = make("tr");
      row.append(make("td", span.words), make("td", count(span.answers)), make("td", count(span.left)));
      return row;
    }),
  );
  show("history", spans.length > 0);
  drawing = spans.length > 0 ? { total: history.queries, spans, length } : null;
  chart();
}

function drawn(tag, attributes, text = "") {
  const element = document.createElementNS(find("chart").namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

// What is left, against time; within one span the answers are spread evenly.
function chart() {
  const svg = find("chart");
  svg.replaceChildren(find("chart-title"));
  if (drawing === null) return;
  const { total, spans, length } = drawing;
  const room = 9 * count(total).length + 12;
  const [width, top, bottom] = [Math.max(svg.clientWidth, 200), 10, 138];
  const from = spans[0].begin;
  const to = Math.max(spans[spans.length - 1].begin + length, Math.ceil(Date.now() / length) * length);
  const x = (time) => (room + ((Math.min(time, to) - from) / (to - from)) * (width - room - 4)).toFixed(1);
  const y = (rest) => (bottom - (rest / total) * (bottom - top)).toFixed(1);
  let line = `M${x(from)} ${y(total)}`;
  for (const span of spans) line += `H${x(span.begin)}L${x(span.begin + length)} ${y(span.left)}`;
  line += `H${x(to)}`;
  for (const rest of new Set([total, Math.round(total / 2), 0])) {
    svg.append(drawn("line", { class: "axis", x1: room, x2: width - 4, y1: y(rest), y2: y(rest) }));
    svg.append(drawn("text", { x: room - 8, y: Number(y(rest)) + 4, "text-anchor": "end" }, count(rest)));
  }
  svg.append(drawn("path", { class: "area", d: `${line}V${y(0)}H${x(from)}Z` }), drawn("path", { class: "line", d: line }));
  svg.append(drawn("text", { x: room, y: bottom + 20 }, spans[0].words), drawn("text", { x: width - 4, y: bottom + 20, "text-anchor": "end" }, "now"));
  find("chart-caption").textContent = `Answers left since the first one, at ${spans[0].words} UTC: ${count(spans[spans.length - 1].left)} now.`;
}

// Keys

function keyRow(entry) {
  const works = entry.revoked === null;
  const row = make("tr", "", works ? {} : { class: "gone" });
  const cells = { name: entry.name, role: entry.role, used: count(entry.used), share: entry.share === null ? "no limit" : count(entry.share), state: works ? "works" : "revoked" };
  for (const [name, text] of Object.entries(cells)) row.append(make("td", text, name === "name" ? {} : { "data-label": name }));
  const last = make("td");
  if (works) last.append(revokeButton(entry));
  row.append(last);
  return row;
}

function revokeButton(entry) {
  const button = make("button", "Revoke", { type: "button", class: "danger", "aria-label": `Revoke the key of ${entry.name}` });
  let sure = false;
  const ready = (state) => {
    sure = state;
    button.textContent = sure ? "Revoke for good?" : "Revoke";
    button.setAttribute("aria-label", sure ? `Revoke for good? The key of ${entry.name}` : `Revoke the key of ${entry.name}`);
  };
  button.addEventListener("blur", () => ready(false));
  button.addEventListener("click", async () => {
    if (!sure) {
      ready(true);
      return;
    }
    find("key-problem").textContent = "";
    try {
      await call(`/console/api/keys/${encodeURIComponent(entry.id)}`, "DELETE");
      button.blur();
      await refresh();
    } catch (problem) {
      if (problem.status === 401) trouble(problem);
      else find("key-problem").textContent = problem.message;
    }
  });
  return button;
}

async function showKeys() {
  const { keys } = await call("/console/api/keys");
  const rows = find("key-rows");
  if (rows.contains(document.activeElement)) return; // somebody is about to revoke: do not pull the button away
  rows.replaceChildren(...keys.map(keyRow));
  show("keys");
}

async function makeKey(event) {
  event.preventDefault();
  find("key-problem").textContent = "";
  const share = find("key-share").value;
  const body = { name: find("key-name").value.trim(), role: find("key-role").value, share: share === "" ? null : Number(share) };
  try {
    const made = await call("/console/api/keys", "POST", JSON.stringify(body));
    find("made-name").textContent = made.name;
    find("made-token").textContent = made.token;
    show("key-made");
    event.target.reset();
    await refresh();
  } catch (problem) {
    if (problem.status === 401) trouble(problem);
    else find("key-problem").textContent = problem.status === 422 ? "The name may have 60 plain characters; the share is a whole number." : problem.message;
  }
}

function forgetMade() {
  find("made-token").textContent = "";
  find("copy").textContent = "Copy";
  show("key-made", false);
}

// Signing in and out

async function showOperator() {
  if (!operator) return; // for an analyst, budget and queries are all there is
  await showHistory();
  await showKeys();
}

async function refresh() {
  if (key === null) return;
  try {
    await showBudget();
    await showOperator();
    trouble(null);
  } catch (problem) {
    trouble(problem);
  }
}

async function signIn(event) {
  event.preventDefault();
  find("login-problem").textContent = "";
  trouble(null);
  key = find("key").value.trim();
  try {
    if (!/^[!-~]+$/.test(key)) throw new Problem(401, "");
    await showBudget();
  } catch (problem) {
    key = null;
    const unknown = "This key is not known, or was revoked. Check that all of it was copied.";
    find("login-problem").textContent = problem.status === 401 ? unknown : problem.message;
    find("key").focus();
    return;
  }
  find("key").value = "";
  show("login", false);
  show("signed");
  show("ask");
  find("sign-out").focus();
  await showOperator().catch(trouble);
  timer = setInterval(() => document.hidden || refresh(), 15000);
}

function signOut(why = "") {
  key = null;
  clearInterval(timer);
  forgetMade();
  for (const id of ["signed", "budget", "history", "ask", "answer", "keys", "trouble"]) show(id, false);
  find("key-rows").replaceChildren();
  find("history-rows").replaceChildren();
  find("ask-form").reset();
  show("login");
  find("login-problem").textContent = why;
  find("key").focus();
}

find("login-form").addEventListener("submit", signIn);
find("sign-out").addEventListener("click", () => signOut());
find("ask-form").addEventListener("submit", ask);
find("key-form").addEventListener("submit", makeKey);
find("made-done").addEventListener("click", forgetMade);
if (navigator.clipboard) {
  find("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(find("made-token").textContent);
    find("copy").textContent = "Copied";
  });
} else show("copy", false);

new ResizeObserver(chart).observe(find("chart"));

showPromise().catch((problem) => {
  find("promise").textContent = "The guarantee could not be loaded.";
  trouble(problem);
});
