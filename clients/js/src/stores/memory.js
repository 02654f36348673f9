// A store that ends with the program: for tests, and for looking at what would be sent.

export function memoryStore() {
  const states = [];
  return {
    read: async () => (states.length ? [states.length - 1, structuredClone(states.at(-1))] : null),
    write: async (number, state) => number === states.length && Boolean(states.push(structuredClone(state))),
  };
}
