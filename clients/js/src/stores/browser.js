// A store in the browser's database. Every write is a transaction of its own that is on disk before it is answered;
// a number that is taken is found taken, also by another tab.

import { ParameterError } from "../bytes.js";

const settled = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function opened(name) {
  const request = indexedDB.open(name, 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore("owner");
    request.result.createObjectStore("runs");
  };
  try {
    return await settled(request);
  } catch {
    throw new ParameterError("the browser gives this page no storage (a private window, perhaps); nothing was sent");
  }
}

/** The store of a name, on this page's origin. */
export function browserStore(name = "privpac-device") {
  const read = async (table, ask) => {
    const book = await opened(name);
    try {
      return await settled(ask(book.transaction(table, "readonly").objectStore(table)));
    } finally {
      book.close();
    }
  };
  const once = async (table, key, value) => {
    const book = await opened(name);
    try {
      const step = book.transaction(table, "readwrite", { durability: "strict" });
      const done = new Promise((resolve, reject) => {
        step.oncomplete = () => resolve(true);
        step.onabort = () => (step.error?.name === "ConstraintError" ? resolve(false) : reject(step.error));
      });
      step.objectStore(table).add(value, key);
      return await done;
    } finally {
      book.close();
    }
  };
  return {
    owner: async () => (await read("owner", (table) => table.get(1))) ?? null,
    runs: () => read("runs", (table) => table.getAll()),
    async found(owner) {
      // Without it a browser that is short of space may empty the store.
      await navigator.storage?.persist?.();
      return once("owner", 1, owner);
    },
    add: (place, run) => once("runs", place, run),
  };
}
