// A store in the browser's database: one entry, which holds everything. A write is a transaction of its own that is on disk
// before it is answered; a number that is taken is found taken, also by another tab. Only the first state makes the
// database, in one step with it; a database that lost its entry, and a page that remembers a database that is gone, are
// errors.

import { ParameterError } from "../bytes.js";

const TABLE = "store";

const settled = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** The database; `first` is put into a new one, and without it none is made: null. */
async function opened(name, first = null) {
  const request = indexedDB.open(name, 2);
  request.onupgradeneeded = (event) => {
    // One of another version is left as it is, and is an error.
    if (first && event.oldVersion === 0) request.result.createObjectStore(TABLE).add(first, 1);
    else request.transaction.abort();
  };
  try {
    return await settled(request);
  } catch (error) {
    if (error?.name === "AbortError") return null;
    throw new ParameterError("the browser gives this page no storage (a private window, perhaps); nothing was sent");
  }
}

/** The store of a name, on this page's origin. */
export function browserStore(name = "privpac-device") {
  const using = async (book, work) => {
    try {
      return await work(book);
    } finally {
      book.close();
    }
  };
  const memory = globalThis.localStorage;
  return {
    async read() {
      const book = await opened(name);
      if (book === null) {
        if (memory?.getItem(name)) throw new Error("a store was here"); // the device says that it was emptied
        return null;
      }
      const found = await using(book, () => settled(book.transaction(TABLE, "readonly").objectStore(TABLE).get(1)));
      return found ?? [0, undefined];
    },
    async write(number, state) {
      if (number === 0) {
        if (memory?.getItem(name)) return false;
        // Without it a browser that is short of space may empty the store.
        await navigator.storage?.persist?.();
        const mark = crypto.randomUUID();
        const book = await opened(name, [0, { ...state, mark }]);
        if (book === null) return false;
        const found = await using(book, () => settled(book.transaction(TABLE, "readonly").objectStore(TABLE).get(1)));
        if (found?.[1]?.mark !== mark) return false;
        memory?.setItem(name, "made");
        return true;
      }
      const book = await opened(name);
      if (book === null) return false;
      return using(book, () => {
        const step = book.transaction(TABLE, "readwrite", { durability: "strict" });
        const table = step.objectStore(TABLE);
        let written = false;
        table.get(1).onsuccess = (event) => {
          written = event.target.result?.[0] === number - 1;
          if (written) table.put([number, state], 1);
        };
        return new Promise((resolve, reject) => {
          step.oncomplete = () => resolve(written);
          step.onabort = () => reject(step.error);
        });
      });
    },
  };
}
