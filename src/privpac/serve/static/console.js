"use strict";

const find = (id) => document.getElementById(id);
let key = null;

async function call(path, method = "GET", body = undefined) {
  const headers = { Accept: "application/json" };
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store" });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.detail);
  return answer;
}

function cells(...texts) {
  const row = document.createElement("tr");
  for (const text of texts) {
    const cell = row.insertCell();
    if (text instanceof Node) cell.append(text);
    else cell.textContent = text;
  }
  return row;
}

async function showPromise() {
  const promise = await call("/guarantee");
  find("promise").textContent = `${promise.queries} answers together: ${promise.summary}`;
  const facts = { rule: promise.rule, "1 means": promise.label };
  for (const feature of promise.features) facts[feature.name] = feature.domain;
  for (const [name, value] of Object.entries(facts)) {
    const term = document.createElement("dt");
    const text = document.createElement("dd");
    term.textContent = name;
    text.textContent = value;
    find("facts").append(term, text);
  }
}

async function showBudget() {
  const budget = await call("/budget");
  const own = budget.share === null ? "" : ` This key: ${budget.key_used} of ${budget.share}.`;
  find("budget-text").textContent = `${budget.used} of ${budget.queries} answers used, ${budget.remaining} left.${own}`;
  find("budget-bar").value = budget.used / budget.queries;
  find("budget").hidden = false;
}

async function showHistory() {
  const history = await call("/console/api/history");
  let used = 0;
  find("history-rows").replaceChildren(
    ...history.answers.map((span) => cells(span.minute.replace("T", " "), span.answers, (used += span.answers))),
  );
  find("history").hidden = false;
}

async function showKeys() {
  const list = await call("/console/api/keys");
  find("key-rows").replaceChildren(
    ...list.keys.map((entry) => {
      let last = "";
      if (entry.revoked === null) {
        last = document.createElement("button");
        last.textContent = "Revoke";
        last.addEventListener("click", async () => {
          await call(`/console/api/keys/${entry.id}`, "DELETE");
          await showKeys();
        });
      }
      return cells(entry.name, entry.role, entry.used, entry.share ?? "no limit", entry.revoked === null ? "works" : "revoked", last);
    }),
  );
  find("keys").hidden = false;
}

find("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  key = find("key").value.trim();
  find("login-problem").textContent = "";
  try {
    await showBudget();
  } catch (problem) {
    key = null;
    find("login-problem").textContent = problem.message;
    return;
  }
  find("login").hidden = true;
  find("key").value = "";
  try {
    await showHistory();
    await showKeys();
  } catch {
    find("history").hidden = true; // an analyst's key: the budget is all there is to see
  }
});

find("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const share = find("key-share").value;
  const body = { name: find("key-name").value, share: share === "" ? null : Number(share) };
  try {
    const made = await call("/console/api/keys", "POST", body);
    find("key-made").textContent = `Key of ${made.name}, shown only now: ${made.token}`;
    event.target.reset();
    await showKeys();
  } catch (problem) {
    find("key-made").textContent = problem.message;
  }
});

showPromise().catch((problem) => {
  find("promise").textContent = problem.message;
});
