// What a person is told before anything is sent: who sees what, what it costs, and what it reveals, with odds. Numbers
// here are for reading; none of them decides anything.

const SEES = {
  local: (sealed) =>
    `The collector sees that you took part${sealed}. The message is private by itself: whoever reads it, alone or ` +
    "with everybody else, learns almost nothing about your records.",
  shuffle: (sealed, nMin) =>
    `The shuffler sees that you took part and how many messages you sent${sealed}. The analyzer sees everybody's ` +
    "messages mixed, without names. This holds while shuffler and analyzer do not work together and at least " +
    `${nMin} honest people take part.`,
  central: (sealed) =>
    `The collector sees that you took part${sealed}. The analyzer reads the rule that your records lead to, without ` +
    "noise, and must be trusted with it; the promise is about what the analyzer publishes.",
};

/** The promise in words, the same in every client. */
export function told(manifest) {
  const sealed = manifest.sealed ? "; the content is sealed to the analyzer" : " and can read the message";
  const small = manifest.delta.top ? `, delta = ${manifest.delta}` : "";
  const sees = SEES[manifest.protocol](sealed, manifest.sends.nMin);
  return `${sees} This run costs epsilon = ${manifest.epsilon}${small} of your total.`;
}

const value = (ratio) => {
  const shift = Math.max(ratio.bottom.toString(2).length - 60, 0);
  return Number(ratio.top >> BigInt(shift)) / Number(ratio.bottom >> BigInt(shift));
};

const hundred = (share) => {
  const found = Math.round(1000 * share) / 10;
  return found >= 99.95 ? "more than 99.9" : `${found}`;
};

/**
 * What the promise means for a guess: someone who thinks two stories about your records equally likely, and sees all
 * that this run shows, is right at most in `guess` of 100 cases; a coin is right in 50.
 */
export function odds(manifest) {
  // Two stories are two people in one place: under add-remove one leaves and the other comes, (2 eps, (1 + e^eps) delta).
  const [steps, once, fails] = [manifest.neighbours === "replace" ? 1 : 2, value(manifest.epsilon), value(manifest.delta)];
  const epsilon = steps * once;
  const delta = Math.min(1, steps === 1 ? fails : (1 + Math.exp(Math.min(once, 40))) * fails);
  // The best guess between two laws at (epsilon, delta): (e^eps + delta)/(1 + e^eps).
  const guess = epsilon > 40 ? 1 : (Math.exp(epsilon) + delta) / (1 + Math.exp(epsilon));
  const factor = epsilon > 12 ? "more than 100,000" : `${Math.round(100 * Math.exp(epsilon)) / 100}`;
  return { guess: hundred(Math.min(guess, 1)), factor, delta };
}

/** What leaves the device, in words. */
export function sent(manifest) {
  const { messageBytes, mostMessages, protocol, sealed, sends } = manifest;
  const locked = sealed ? ", locked so that only the analyzer can open it" : ", readable by whoever carries it";
  if (protocol === "local") {
    const keep = hundred(value(sends.keep));
    return (
      `One message of ${messageBytes} bytes${locked}. It holds a number drawn at random and one yes or no. Your device ` +
      `gives the true yes or no in ${keep} of 100 cases and the opposite in the others; with nothing to say it tosses a coin.`
    );
  }
  if (protocol === "shuffle")
    return (
      `Up to ${mostMessages} messages of ${messageBytes} bytes each${locked}. One stands for ` +
      `${sends.chunks > 1 ? "a randomly chosen part of " : ""}your rule, the others are noise drawn by your device; nobody ` +
      "can tell which is which."
    );
  return `One message of at most ${messageBytes} bytes${locked}. It holds the rule that your records lead to, or nothing.`;
}

/** A rule in words, for the person it came from. */
export function describe(manifest, item) {
  const { columns, label } = manifest;
  const rule = manifest.learner.rule(item);
  const yes = `${label} is 1`;
  const bit = (literal) => {
    const j = literal % rule.d;
    return `${columns[j].name} is ${columns[j].text(literal < rule.d ? 1 : 0)}`;
  };
  const named = (mask) => columns.filter((_, j) => (mask >> BigInt(j)) & 1n).map((column) => column.name);
  switch (rule.kind) {
    case "cut": {
      const column = columns[rule.column];
      if (rule.cut === 0n) return rule.above ? `${yes}: always` : `${yes}: never`;
      if (rule.cut >= column.size) return rule.above ? `${yes}: never` : `${yes}: always`;
      return `${yes} when ${column.name} is ${rule.above ? "at least" : "below"} ${column.text(rule.cut)}`;
    }
    case "point":
      return `${yes} when ${columns[0].name} is ${columns[0].text(rule.point)}`;
    case "run":
      return rule.low === rule.high
        ? `${yes}: never`
        : `${yes} when ${columns[0].name} is from ${columns[0].text(rule.low)} to ${columns[0].text(rule.high - 1n)}`;
    case "hashed":
      return rule.function === null
        ? `${yes}: never`
        : `${yes} for the values of ${columns[0].name} in bucket ${rule.bucket} of hash ${rule.function}`;
    case "parity": {
      const chosen = named(rule.mask);
      return chosen.length ? `${yes} when an odd number of ${chosen.join(", ")} are 1` : `${yes}: never`;
    }
    case "conjunction":
    case "disjunction": {
      const chosen = Array.from({ length: 2 * rule.d }, (_, j) => j).filter((j) => (rule.mask >> BigInt(j)) & 1n);
      if (!chosen.length) return rule.kind === "conjunction" ? `${yes}: always` : `${yes}: never`;
      return `${yes} when ${chosen.map(bit).join(rule.kind === "conjunction" ? " and " : " or ")}`;
    }
    case "list": {
      const parts = rule.rules.map(([test, mark]) => `if ${test.map(bit).join(" and ") || "anything"}: ${mark}`);
      return `${label}: ${[...parts, `otherwise ${rule.last}`].join("; ")}`;
    }
    case "weights": {
      const parts = rule.weights.flatMap((w, j) => (w ? [`${w} x ${columns[j].name}`] : []));
      return parts.length
        ? `${yes} when ${parts.join(" + ")} is above ${-rule.constant} (places in the columns' lists of values)`
        : `${yes}: ${rule.constant > 0n ? "always" : "never"}`;
    }
    case "scores": {
      const parts = [];
      let at = 0;
      for (const column of columns)
        for (let v = 1n; v < column.size; v++, at++)
          if (rule.weights[at]) parts.push(`${rule.weights[at]} if ${column.name} is ${column.text(v)}`);
      return parts.length
        ? `${yes} when these points exceed ${-rule.constant}: ${parts.join(", ")}`
        : `${yes}: ${rule.constant > 0n ? "always" : "never"}`;
    }
    default:
      return `a table of what ${label} is for every value`;
  }
}
