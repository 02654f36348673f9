// A store in a folder, for Node: one file for the owner, one for every run, each written whole and linked into place
// once. A file that is there is never changed, so nothing is lost when the program dies at any moment.

import { randomBytes } from "node:crypto";
import { link, mkdir, open, readdir, readFile, unlink } from "node:fs/promises";
import { join } from "node:path";
import { ParameterError } from "../bytes.js";

const RUN = /^run-([0-9]{6})\.json$/;

async function flushed(path, flags, data) {
  const file = await open(path, flags, 0o600);
  try {
    if (data !== undefined) await file.writeFile(data);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** The store in a folder. */
export function fileStore(folder) {
  const once = async (name, value) => {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const draft = join(folder, `.draft-${randomBytes(8).toString("hex")}`);
    await flushed(draft, "wx", JSON.stringify(value));
    try {
      await link(draft, join(folder, name));
      await flushed(folder, "r");
      return true;
    } catch (error) {
      if (error.code === "EEXIST") return false;
      throw new ParameterError(`the store in '${folder}' cannot be written (${error.code})`);
    } finally {
      await unlink(draft);
    }
  };
  const read = async (name) => {
    let text;
    try {
      text = await readFile(join(folder, name), "utf8");
    } catch (error) {
      if (error.code === "ENOENT") return null;
      throw new ParameterError(`the store in '${folder}' cannot be read (${error.code})`);
    }
    try {
      return JSON.parse(text);
    } catch {
      return undefined; // damaged: the device says so
    }
  };
  return {
    owner: () => read("owner.json"),
    async runs() {
      const names = (await readdir(folder).catch(() => [])).filter((name) => RUN.test(name)).sort();
      return Promise.all(names.map(read));
    },
    found: (owner) => once("owner.json", owner),
    add: (place, run) => once(`run-${String(place).padStart(6, "0")}.json`, run),
  };
}
