// Takes part in a privpac protocol: docs/wire.md is what it does, README.md how it is used.

export { BudgetExhausted, ManifestError, ParameterError, PrivpacError } from "./bytes.js";
export { Client } from "./client.js";
export { readCsv } from "./csv.js";
export { ACCEPTED, Device } from "./device.js";
export { Manifest } from "./manifest.js";
export { bundle } from "./messages.js";
export { fingerprint } from "./signature.js";
export { browserStore } from "./stores/browser.js";
export { memoryStore } from "./stores/memory.js";
export { published, submit } from "./submit.js";
export { describe, odds, sent, told } from "./told.js";
