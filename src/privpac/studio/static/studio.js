"use strict";
// One page, no framework: every button asks the studio on this machine, and shows the command that does the same.

const $ = (id) => document.getElementById(id);
const STORE = "privpac-key";
const stops = $("epsilon").dataset.stops.split(" ");
let table = null;
let asked = 0;

// The key came in the fragment of the link; it is kept for this address and port, and leaves the address line.
if (location.hash.length > 1) {
  localStorage.setItem(STORE, location.hash.slice(1));
  history.replaceState(null, "", "/");
}

async function ask(path, body) {
  const settings = { headers: { "x-privpac-key": localStorage.getItem(STORE) || "" }, credentials: "same-origin" };
  if (body !== undefined) {
    settings.method = "POST";
    const file = body instanceof Blob;
    settings.headers["content-type"] = file ? "application/octet-stream" : "application/json";
    settings.body = file ? body : JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, settings);
  } catch {
    throw new Error("The studio does not answer; it may have been closed. Start it again with: privpac studio");
  }
  const found = await answer.json().catch(() => ({ error: "The studio sent something else than an answer." }));
  if (!answer.ok) throw new Error(found.error);
  return found;
}

function element(tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
}

function option(value, text) {
  const made = element("option", text === undefined ? value : text);
  made.value = value;
  return made;
}

function show(id, yes = true) { $(id).hidden = !yes; }

function trouble(error) {
  $("trouble").textContent = error ? error.message : "";
  show("trouble", Boolean(error));
}

function showCommand(block, command) {
  block.querySelector("code").textContent = command || "";
  block.hidden = !command;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest(".copy");
  if (!button) return;
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

async function during(button, work, problem) {
  const said = button.textContent;
  button.disabled = true;
  button.prepend(element("span", "", "busy"));
  $(problem).textContent = "";
  try {
    return await work();
  } catch (error) {
    $(problem).textContent = error.message;
    return null;
  } finally {
    button.disabled = false;
    button.textContent = said;
  }
}

// 1. The table

async function refresh() {
  const state = await ask("/api/state");
  $("place").textContent = state.folder + (state.folder === state.start ? "" : " · commands are meant for " + state.start);
  const select = $("tables");
  select.replaceChildren(option("", state.tables.length ? "choose …" : "no .csv or .parquet file in this folder yet"));
  for (const name of state.tables) select.append(option(name, name.startsWith("/") ? name.split("/").pop() + " (handed in)" : name));
  select.value = table || "";
  return state;
}

async function choose(name) {
  trouble();
  table = name || null;
  for (const id of ["declare", "check", "plan", "learn", "measure", "reading"]) show(id, false);
  forgetCheck();
  const text = /\.csv$/i.test(table || "");
  show("reading-as", text);
  if (!table) { show("budget-there", false); show("budget-form", false); show("budget-none"); return; }
  const body = { table };
  if (text && $("separator").value) body.separator = $("separator").value;
  if (text && $("no-header").checked) body.names = $("names").value;
  try {
    const found = await ask("/api/columns", body);
    showColumns(found);
    await showBudget();
    show("declare");
    if (found.saved && !found.trouble) { await afterDeclared(); }
  } catch (error) {
    trouble(error);
    $("reading-as").open = text;
  }
}

function another(name) {
  $("reading-form").reset();
  show("names-field", false);
  $("reading-as").open = false;
  return choose(name);
}

$("tables").addEventListener("change", () => another($("tables").value));
$("no-header").addEventListener("change", () => show("names-field", $("no-header").checked));
$("reading-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if ($("no-header").checked && !$("names").value.trim()) {
    trouble(new Error("Write the names of all columns in their order: a, b, c. The first line of the file holds none."));
    $("names").focus();
    return;
  }
  choose(table);
});

async function take(file) {
  if (!file) return;
  trouble();
  try {
    const kept = await ask("/api/upload?name=" + encodeURIComponent(file.name), file);
    await refresh();
    $("tables").value = kept.table;
    await another(kept.table);
  } catch (error) { trouble(error); }
}

$("file").addEventListener("change", () => take($("file").files[0]));
for (const name of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", name === "dragover");
    if (name === "drop") take(event.dataTransfer.files[0]);
  });
}

// 2. What everybody may know

const KINDS = { out: "rules may not read it", whole: "whole numbers", decimal: "decimals", names: "names", ordered: "names in order", dates: "dates", number: "any number" };

function parse(domain) {
  if (domain === null) return { kind: "open", parts: [] };
  if (Array.isArray(domain)) return { kind: "names", parts: [domain.join(", ")] };
  if (domain !== null && domain.values) return { kind: "ordered", parts: [domain.values.join(" < ")] };
  if (domain === "number") return { kind: "number", parts: [] };
  if (/^{[^,]*<[^,]*}$/.test(domain)) return { kind: "ordered", parts: [domain.slice(1, -1).split("<").join(" < ")] };
  if (domain.startsWith("{")) return { kind: "names", parts: [domain.slice(1, -1).split(",").join(", ")] };
  const [range, usual] = domain.split("~");
  const parts = range.split(":");
  const kind = parts.length === 3 ? "decimal" : parts[0].includes("-", 1) ? "dates" : "whole";
  return { kind, parts: [...parts, ...(usual ? usual.split(":") : [])] };
}

function compose(row) {
  const kind = row.querySelector("select").value;
  const values = [...row.querySelectorAll("input")].map((input) => input.value.trim());
  if (kind === "number") return "number";
  if (kind === "names" || kind === "ordered") {
    const sign = kind === "ordered" ? "<" : ",";
    const names = values[0].split(sign).map((name) => name.trim()).filter(Boolean);
    if (/[{}]/.test(values[0]) || (kind === "ordered" && (/,/.test(values[0]) || names.length < 2)))
      return JSON.stringify(names) + (kind === "ordered" ? ",ordered=true" : "");
    return "{" + names.join(sign) + "}";
  }
  const [legal, usual] = [values.slice(0, -2), values.slice(-2)];
  return legal.join(":") + (usual.some(Boolean) ? "~" + usual.join(":") : "");
}

// The last two of numbers and dates may stay empty: where most values lie, as everybody may know it.
const USUAL = ["usually from", "usually to"];
const FIELDS = {
  whole: ["from", "to", ...USUAL],
  decimal: ["from", "to", "step", ...USUAL],
  dates: ["first day", "last day", ...USUAL],
  names: ["a, b, c"],
  ordered: ["a < b < c"],
};

function fields(row, name, kind, parts) {
  const place = row.querySelector(".values");
  place.replaceChildren();
  (FIELDS[kind] || []).forEach((word, i) => {
    const input = element("input");
    input.placeholder = word;
    input.setAttribute("aria-label", name + ", " + word);
    input.spellcheck = false;
    input.value = parts[i] || "";
    input.classList.toggle("usual", USUAL.includes(word));
    place.append(input);
  });
  row.classList.toggle("open", kind === "open");
  row.classList.toggle("out", kind === "out");
}

function showColumns(found) {
  const names = found.columns.map((column) => column.name);
  const alone = option("", "every record is a person of its own");
  alone.dataset.unit = "item";
  $("user").replaceChildren(option("", "choose …"), ...names.map((name) => option(name)), alone);
  $("user").value = found.user;
  alone.selected = found.unit === "item";
  $("label").replaceChildren(option("", "choose …"), ...names.map((name) => option(name)));
  for (const key of ["label", "positive", "missing", "on_invalid"]) $(key).value = found[key];
  types = Object.fromEntries(found.columns.map((column) => [column.name, column.type]));
  $("labels").querySelector("[value=file]")?.remove();
  if (found.file_labels) $("labels").append(option("file", "as the schema file says: " + found.file_labels));
  $("labels").value = found.labels;
  labels(!found.labels);
  $("columns").replaceChildren();
  for (const column of found.columns) {
    const row = element("div", undefined, "column");
    row.dataset.name = column.name;
    const name = element("div", column.name, "name");
    if (column.type) name.append(element("small", column.type));
    const select = element("select");
    select.setAttribute("aria-label", column.name + " holds");
    const known = parse(column.domain);
    const kind = column.read || column.name === found.user || column.name === found.label ? known.kind : "out";
    if (kind === "open") select.append(option("open", "please say …"));
    for (const [value, text] of Object.entries(KINDS)) select.append(option(value, text));
    select.value = kind;
    select.addEventListener("change", () => fields(row, column.name, select.value, select.value === known.kind ? known.parts : []));
    row.append(name, select, element("div", undefined, "values"));
    if (column.note) row.append(element("p", column.note, "note help"));
    fields(row, column.name, kind, known.parts);
    $("columns").append(row);
  }
  roles();
  $("declare-problem").textContent = found.trouble || "";
  show("declare-done", false);
  show("schema-text", false);
  showCommand($("declare-command"), "");
}

let types = {};

// What a label's values are is chosen by a person, unless its type leaves nothing to choose.
function labels(fresh) {
  const type = types[$("label").value];
  const worded = type === "text" || type === "dates";
  $("labels").querySelector("[value=binary]").disabled = worded;
  if (fresh || (worded && $("labels").value === "binary")) $("labels").value = type === "yes or no" ? "binary" : worded ? "value" : "";
  show("positive-field", $("labels").value === "value");
}
$("label").addEventListener("change", () => labels(true));
$("labels").addEventListener("change", () => labels(false));

const unit = () => $("user").selectedOptions[0]?.dataset.unit || ($("user").value ? "user" : "");

function roles() {
  show("unit-note", unit() === "item");
  for (const row of $("columns").children) {
    row.hidden = [$("user").value, $("label").value].includes(row.dataset.name);
  }
}
$("user").addEventListener("change", roles);
$("label").addEventListener("change", roles);

$("declare-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const rows = [...$("columns").children].filter((row) => !row.hidden && row.querySelector("select").value !== "out");
  const open = rows.find((row) => row.querySelector("select").value === "open");
  const first = [
    [!unit(), $("user"), "Say whose record it is: choose the column with the person's id, or that every record is a person of its own."],
    [!$("label").value, $("label"), "Choose what is to be predicted."],
    [!$("labels").value, $("labels"), "Say what the values of " + $("label").value + " are: 0 and 1 (or true and false), or the value to be predicted."],
    [$("labels").value === "value" && !$("positive").value.trim(), $("positive"), "Write which value of " + $("label").value + " is to be predicted."],
    [open, open && open.querySelector("select"), "Say what " + (open && open.dataset.name) + " may hold, or that rules may not read it."],
  ].find(([wrong]) => wrong);
  if (first) {
    $("declare-problem").textContent = first[2];
    first[1].focus();
    return;
  }
  const columns = Object.fromEntries(rows.map((row) => [row.dataset.name, compose(row)]));
  const body = { table, columns, unit: unit() };
  for (const key of ["user", "label", "labels", "positive", "missing", "on_invalid"]) body[key] = $(key).value;
  const done = await during($("declare-button"), () => ask("/api/schema", body), "declare-problem");
  if (!done) return;
  $("declare-done").textContent = "Written to " + done.schema;
  show("declare-done");
  $("schema-text").querySelector("pre").textContent = done.text;
  show("schema-text");
  showCommand($("declare-command"), done.command);
  await showBudget();
  await afterDeclared();
});

async function afterDeclared() {
  forgetCheck();
  show("check");
  show("plan");
  show("learn");
  await showPlan();
  showResults((await ask("/api/state")).results);
}

// The check: exact counts for the person at the page. They are asked for by a click, put into the page, and go with it.

function forgetCheck() {
  checked++;
  $("check-found").replaceChildren();
  $("check-problem").textContent = "";
  $("check-box").open = false;
  showCommand($("check-command"), "");
}
let checked = 0;

$("check-box").addEventListener("toggle", () => { if (!$("check-box").open) forgetCheck(); });
$("check-button").addEventListener("click", async () => {
  $("check-found").replaceChildren();
  const mine = ++checked;
  const done = await during($("check-button"), () => ask("/api/check", { table }), "check-problem");
  if (!done || mine !== checked) return;
  showCommand($("check-command"), done.command);
  if (done.failed) { $("check-problem").textContent = done.failed; return; }
  showCheck(done.found);
});

const count = (value) => typeof value === "number" ? value.toLocaleString("en") : value === undefined || value === null ? "–" : String(value);

function grid(caption, heads, rows) {
  const made = element("table"), top = element("tr"), body = element("tbody"), head = element("thead");
  made.append(element("caption", caption), head, body);
  head.append(top);
  for (const [text, name] of heads) {
    const cell = element("th", text, name);
    cell.scope = "col";
    top.append(cell);
  }
  for (const row of rows) {
    const line = element("tr");
    line.append(...row.map((value, i) => element("td", count(value), heads[i][1])));
    body.append(line);
  }
  return made;
}

function showCheck(found) {
  const place = $("check-found");
  place.replaceChildren(...(found.warnings || []).map((line) => element("p", line, "alarm")));
  place.append(grid("Read and kept", [["", "words"], ["read", "n"], ["kept", "n"]], [
    ["records", found.records_read, found.records_kept],
    ["people", found.people_read, found.people_kept],
  ]));
  if ((found.columns || []).length) {
    place.append(grid("Left out or repaired", [["column", "words"], ["why", "words"], ["records", "n"], ["what happens", "words"]],
      found.columns.map((row) => [row.column, row.reason, row.records, row.what])));
  }
  if ((found.labels || []).length) {
    place.append(grid("Labels", [["label", "words"], ["records", "n"]], found.labels.map((row) => [row.label, row.records])));
  }
  const spread = found.records_per_person;
  if (spread) {
    place.append(grid("Records of one person", [["fewest", "n"], ["a quarter have at most", "n"], ["half", "n"], ["three quarters", "n"], ["most", "n"]],
      [[spread.min, spread.q1, spread.median, spread.q3, spread.max]]));
  }
  if (found.notice) place.append(element("p", found.notice, "help"));
}

// 3. The plan

// A promise for single records is never shown as one for people: amber, and what it means.
function perRecord(odds, note, told) {
  odds.classList.toggle("records", Boolean(told.per_record) && !told.alarming);
  note.textContent = told.per_record ? told.per_record[0].toUpperCase() + told.per_record.slice(1) + "." : "";
  note.hidden = !told.per_record;
}

const epsilon = () => stops[Number($("epsilon").value)];
let waiting = null;

function planSoon() {
  $("epsilon-value").textContent = epsilon();
  clearTimeout(waiting);
  waiting = setTimeout(showPlan, 200);
}

async function showPlan() {
  $("epsilon-value").textContent = epsilon();
  const mine = ++asked;
  const people = $("people").value ? Number($("people").value) : null;
  const body = { table, rule: $("rule").value || null, epsilon: epsilon(), alpha: $("alpha").value, people, records: Number($("records").value) || 1 };
  if (!$("plan-words").textContent) $("plan-words").textContent = "Planning …";
  try {
    const found = await ask("/api/plan", body);
    if (mine !== asked) return;
    $("plan-problem").textContent = "";
    $("odds").textContent = found.promise + ": " + found.odds + ".";
    $("odds").classList.toggle("alarming", found.alarming);
    perRecord($("odds"), $("plan-records"), found);
    $("plan-words").textContent = found.words.join(" ");
    $("plan-unit").textContent = people === null ? "people" : "error beyond the best";
    const rows = found.rows.map((row) => {
      const line = element("tr");
      line.append(element("td", row.method + (row.kind === "certified" ? "" : " (" + row.kind + ")")), element("td", row.number, "n"), element("td", row.assumption, "words quiet"));
      return line;
    });
    $("plan-rows").querySelector("tbody").replaceChildren(...rows);
    show("plan-rows", rows.length > 0);
    draw(found.curve.filter((point) => point.people));
    showCommand($("plan-command"), found.command);
  } catch (error) {
    if (mine === asked) { $("plan-problem").textContent = error.message; $("plan-words").textContent = ""; }
  }
}

for (const id of ["epsilon", "records", "people"]) $(id).addEventListener("input", planSoon);
for (const id of ["rule", "alpha"]) $(id).addEventListener("change", planSoon);
$("plan-form").addEventListener("submit", (event) => event.preventDefault());

function draw(points) {
  show("plan-figure", points.length > 1);
  if (points.length < 2) return;
  const svg = $("curve");
  const [left, right, top, bottom] = [64, 620, 16, 176];
  const x = (value) => left + (right - left) * (Math.log(value) - Math.log(0.1)) / (Math.log(10) - Math.log(0.1));
  const logs = points.map((point) => Math.log10(point.people));
  const [low, high] = [Math.floor(Math.min(...logs)), Math.ceil(Math.max(...logs) + 1e-9)];
  const y = (people) => bottom - (bottom - top) * (Math.log10(people) - low) / Math.max(high - low, 1);
  const make = (tag, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const parts = [make("rect", { class: "weak", x: x(3), y: top, width: right - x(3), height: bottom - top })];
  for (let power = low; power <= high; power++) {
    parts.push(make("line", { class: "axis", x1: left, x2: right, y1: y(10 ** power), y2: y(10 ** power) }));
    parts.push(make("text", { x: left - 8, y: y(10 ** power) + 4, "text-anchor": "end" }, (10 ** power).toLocaleString("en")));
  }
  for (const value of [0.1, 0.3, 1, 3, 10]) parts.push(make("text", { x: x(value), y: bottom + 20, "text-anchor": "middle" }, "ε " + value));
  const line = points.map((point) => x(point.epsilon) + "," + y(point.people));
  parts.push(make("polygon", { class: "area", points: [x(points[0].epsilon) + "," + bottom, ...line, x(points.at(-1).epsilon) + "," + bottom].join(" ") }));
  parts.push(make("polyline", { class: "line", points: line.join(" ") }));
  const now = points.find((point) => point.epsilon === Number(epsilon()));
  if (now) {
    parts.push(make("circle", { class: "dot", cx: x(now.epsilon), cy: y(now.people), r: 7 }));
    const end = x(now.epsilon) > right - 90;
    parts.push(make("text", { class: "now", x: x(now.epsilon) + (end ? -12 : 12), y: Math.max(y(now.people) - 10, top + 10), "text-anchor": end ? "end" : "start" }, now.people.toLocaleString("en")));
  }
  svg.replaceChildren(svg.querySelector("title"), ...parts);
}

// The budget

async function showBudget() {
  const found = await ask("/api/ledger", { table });
  show("budget-none", false);
  show("budget-there", found.exists);
  show("budget-form", !found.exists);
  if (!found.exists) { $("dataset").value = $("dataset").value || found.dataset; return; }
  $("left").textContent = found.left_shown;
  $("total").textContent = found.total_shown;
  $("bar").value = found.share;
  $("budget-promise").textContent = found.ledger;
  $("spends").replaceChildren(...found.spends.map((spend) => {
    const line = element("li");
    line.append(element("span", spend.what), element("b", "ε " + spend.epsilon), element("small", spend.when.slice(0, 16).replace("T", " ") + " UTC"));
    return line;
  }).reverse());
  showCommand($("budget-command"), found.command);
}

$("budget-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = { table, epsilon: $("budget-epsilon").value.trim(), dataset: $("dataset").value.trim() };
  const done = await during($("budget-form").querySelector("button"), () => ask("/api/budget", body), "budget-problem");
  if (!done) return;
  await showBudget();
  showCommand($("budget-command"), done.command);
});

// Spending: what it costs is shown first, and only the balance that was seen is spent from

function sentence(words) {
  return words.charAt(0).toUpperCase() + words.slice(1) + ".";
}

function agreed(price) {
  $("cost").textContent = price.epsilon;
  $("before").textContent = price.left;
  $("after").textContent = price.after;
  $("confirm-odds").textContent = sentence(price.odds);
  $("confirm-odds").className = "odds" + (price.alarming ? " alarming" : "");
  perRecord($("confirm-odds"), $("confirm-records"), price);
  show("confirm-short", !price.enough);
  $("spend").disabled = !price.enough;
  showCommand($("confirm-command"), price.command);
  const dialog = $("confirm");
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "spend"), { once: true }));
}
$("cancel").addEventListener("click", () => $("confirm").close(""));
$("spend").addEventListener("click", () => $("confirm").close("spend"));

async function release(button, problem, path, body) {
  const price = await during(button, () => ask(path, body), problem);
  if (!price || !(await agreed(price))) return;
  const done = await during(button, () => ask("/api/accept", { offer: price.offer }), problem);
  await showBudget();
  if (done && done.failed) { $(problem).textContent = done.failed; return; }
  if (done) showResults((await ask("/api/state")).results, done);
}

$("learn-form").addEventListener("submit", (event) => {
  event.preventDefault();
  release($("learn-button"), "learn-problem", "/api/learn", { table, rule: $("rule").value || null, epsilon: epsilon(), evaluate: $("evaluate-too").checked });
});

$("measure-form").addEventListener("submit", (event) => {
  event.preventDefault();
  release($("measure-button"), "measure-problem", "/api/evaluate", { table, rule: $("measured").value, epsilon: $("measure-epsilon").value.trim() });
});

function showResults(results, fresh) {
  const rules = results.filter((kept) => kept.what === "rule");
  const mine = (kept) => kept.table === table || kept.what === "evaluation";
  $("rules").replaceChildren(...rules.filter(mine).reverse().map((kept) => card(kept, fresh)));
  $("evaluations").replaceChildren(...results.filter((kept) => kept.what === "evaluation").reverse().map((kept) => card(kept, fresh)));
  const usable = rules.filter((kept) => kept.released);
  const before = $("measured").value;
  $("measured").replaceChildren(...usable.reverse().map((kept) => option(kept.saved, kept.title)));
  if (before && usable.some((kept) => kept.saved === before)) $("measured").value = before;
  show("measure", usable.length > 0);
}

function card(kept, fresh) {
  const made = $("result").content.firstElementChild.cloneNode(true);
  made.querySelector(".rule").textContent = kept.title;
  made.querySelector(".promise").textContent = kept.promise || "";
  made.querySelector(".odds").textContent = kept.odds ? sentence(kept.odds) : "";
  made.querySelector(".odds").classList.toggle("alarming", Boolean(kept.alarming));
  made.querySelector(".promise").classList.toggle("bad", Boolean(kept.alarming));
  made.querySelector(".promise").classList.toggle("records", Boolean(kept.per_record) && !kept.alarming);
  perRecord(made.querySelector(".odds"), made.querySelector(".records-only"), kept);
  made.querySelector(".lines").append(...kept.lines.map((line) => element("p", line)), ...kept.warnings.map((line) => element("p", line, "warn")));
  const button = made.querySelector(".read");
  button.hidden = !kept.report;
  button.addEventListener("click", () => read(kept));
  const block = made.querySelector(".command");
  block.removeAttribute("id");
  showCommand(block, kept.command);
  if (fresh && fresh.saved === kept.saved) made.classList.add("fresh");
  return made;
}

function read(kept) {
  $("report").src = kept.report;
  $("save").href = kept.report + "?save=true";
  $("report-place").textContent = "written to " + kept.report_file;
  show("reading");
  $("reading").scrollIntoView({ behavior: "smooth" });
}

planSoon();
clearTimeout(waiting);
refresh().then((state) => { if (state.tables.length === 1) { $("tables").value = state.tables[0]; choose(state.tables[0]); } }).catch(trouble);
