// A store in a folder: one file, store-<number>.json, which holds everything. A state is written whole, with a digest of
// itself, and linked into place under the next number; then the one before it goes. Nothing is lost when the program dies
// at any moment: of two files the one with the larger number counts, and if that is damaged so is the store. A number may
// be free again because a later one is there already: so a state counts as written when none is later once it is linked.

import { randomBytes } from "node:crypto";
import { link, mkdir, open, readdir, readFile, unlink } from "node:fs/promises";
import { join } from "node:path";
import { hex, ParameterError, utf8 } from "../bytes.js";
import { digest } from "../words.js";

const STATE = /^store-([0-9]{9})\.json$/;
const LINE = /^([0-9a-f]{64})\n([^]*)\n$/;
const RACES = 64;
const nameOf = (number) => `store-${String(number).padStart(9, "0")}.json`;

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
  const failed = (what, error) => new ParameterError(`the store in '${folder}' cannot be ${what} (${error.code})`);
  /** The numbers that are there, the largest first. */
  const numbers = async () => {
    try {
      const found = (await readdir(folder)).map((name) => STATE.exec(name)).filter(Boolean);
      return found.map((match) => Number(match[1])).sort((a, b) => b - a);
    } catch (error) {
      if (error.code === "ENOENT") return [];
      throw failed("read", error);
    }
  };
  const drop = (old) => Promise.all(old.map((number) => unlink(join(folder, nameOf(number))).catch(() => {})));
  return {
    async read() {
      for (let tries = 0; tries < RACES; tries++) {
        const [number, ...older] = await numbers();
        if (number === undefined) return null;
        await drop(older);
        let text;
        try {
          text = await readFile(join(folder, nameOf(number)), "utf8");
        } catch (error) {
          if (error.code === "ENOENT") continue; // another program was quicker: there is a later one
          throw failed("read", error);
        }
        const found = LINE.exec(text);
        return [number, found && found[1] === hex(digest(utf8(found[2]))) ? JSON.parse(found[2]) : undefined];
      }
      throw new ParameterError(`the store in '${folder}' is busy; nothing was sent`);
    },
    async write(number, state) {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      if (((await numbers())[0] ?? -1) !== number - 1) return false;
      const [draft, text] = [join(folder, `.draft-${randomBytes(8).toString("hex")}`), JSON.stringify(state)];
      await flushed(draft, "wx", `${hex(digest(utf8(text)))}\n${text}\n`);
      try {
        await link(draft, join(folder, nameOf(number)));
        await flushed(folder, "r");
      } catch (error) {
        if (error.code === "EEXIST") return false;
        throw failed("written", error);
      } finally {
        await unlink(draft);
      }
      const [latest, ...older] = await numbers();
      await drop(older);
      return latest === number;
    },
  };
}
