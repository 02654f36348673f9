// Sending a bundle to a collector. Only the collector itself counts as an answer: status 204 with the run's own id. A
// redirect is an error and is not followed, and so is the page of a network that asks for a login.

import { hex, ParameterError } from "./bytes.js";
import { VERSION } from "./manifest.js";
import { bundle } from "./messages.js";
import { digest } from "./words.js";

const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,99}$/;
const PATIENCE = 20_000;
const WHY = {
  401: "the token is not that of this name",
  404: "the address is not that of a collector",
  409: "this name has sent something else before",
  413: "larger than this run allows",
  421: "the collector serves another run; fetch its manifest",
  422: "the messages are cut or damaged",
  426: "the collector speaks another version; update the client",
  429: "too many requests; wait a minute and send again with the same store",
  503: "no more clients are taken",
};

/** The manifest that a collector serves; what it claims is checked by whoever reads it. */
export async function published(url) {
  const answer = await ask(url, "/manifest", null, null);
  return new Uint8Array(await answer.arrayBuffer());
}

async function ask(url, path, run, token, body = null) {
  if (!/^https?:\/\//.test(url)) throw new ParameterError("the collector's address starts with http:// or https://");
  const headers = { "Content-Type": "application/octet-stream", "Privpac-Version": `${VERSION}` };
  if (token) headers.Authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(url.replace(/\/+$/, "") + path, {
      method: body ? "POST" : "GET",
      body,
      headers,
      redirect: "error",
      cache: "no-store",
      credentials: "omit",
      referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(PATIENCE),
    });
  } catch {
    throw new ParameterError(
      "the collector could not be reached, or answered with a redirect, which is not followed; send again with the same store",
    );
  }
  if (!answer.ok)
    throw new ParameterError(
      `the collector did not take the submission (status ${answer.status}: ${WHY[answer.status] ?? "unknown"})`,
    );
  if (run && answer.headers.get("Privpac-Run") !== hex(run.subarray(0, 8)))
    throw new ParameterError(
      "the answer is not that of a collector of this run (another run's collector, or a network that asks for a login); " +
        "send again with the same store",
    );
  return answer;
}

/** Send a client's messages; raises if they were not taken. The collector is asked first what this name sent before. */
export async function submit(url, name, messages, run, token = null) {
  if (!NAME.test(name))
    throw new ParameterError("a client's name has 1 to 100 letters, digits and . _ - @, and does not start with a dot");
  const body = bundle(messages);
  const receipt = await ask(url, `/receipt/${name}`, run, token);
  if (receipt.status === 200) {
    if ((await receipt.text()) === hex(digest(body))) return; // it is there already
    throw new ParameterError(
      "the collector did not take the submission (status 409: this name has sent something else in this run, perhaps " +
        "from another store); nothing was sent",
    );
  }
  const answer = await ask(url, `/submit/${name}`, run, token, body);
  if (answer.status !== 204)
    throw new ParameterError(
      `the answer (status ${answer.status}) is not that of a collector of this run; send again with the same store`,
    );
}
