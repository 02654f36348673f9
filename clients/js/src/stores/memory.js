// A store that ends with the program: for tests, and for looking at what would be sent.

export function memoryStore() {
  let owner = null;
  const runs = [];
  return {
    owner: async () => owner,
    runs: async () => structuredClone(runs),
    found: async (given) => (owner ? false : ((owner = structuredClone(given)), true)),
    add: async (place, run) => (place in runs ? false : ((runs[place] = structuredClone(run)), true)),
  };
}
