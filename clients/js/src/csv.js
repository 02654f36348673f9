// A person's CSV file: a header, then one record a line; quotes as usual.

import { ParameterError } from "./bytes.js";

/** Records by column name. */
export function readCsv(text) {
  const rows = [[""]];
  let quoted = false;
  const body = text.replace(/^\ufeff/, "");
  for (let i = 0; i < body.length; i++) {
    const [letter, row] = [body[i], rows.at(-1)];
    if (quoted) {
      if (letter !== '"') row[row.length - 1] += letter;
      else if (body[i + 1] === '"') row[row.length - 1] += body[++i];
      else quoted = false;
    } else if (letter === '"' && row.at(-1) === "") quoted = true;
    else if (letter === ",") row.push("");
    else if (letter === "\n" || letter === "\r") {
      if (letter === "\r" && body[i + 1] === "\n") i++;
      rows.push([""]);
    } else row[row.length - 1] += letter;
  }
  if (quoted) throw new ParameterError("the records are no CSV file: a quotation mark is not closed");
  const [header, ...lines] = rows.filter((row) => row.length > 1 || row[0] !== "");
  if (!header) return [];
  return lines.map((line) => Object.fromEntries(header.map((name, j) => [name, line[j]])));
}
