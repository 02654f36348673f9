// Learners by name, from public integers and texts: what a manifest can say and a device can rebuild.

import { ManifestError, ParameterError } from "./bytes.js";
import { Ratio } from "./exact.js";
import { countTests, Junctions, QueryLists, StagewiseLists } from "./learners/lists.js";
import { Cuts, HashedPoints, Intervals, Parities, Points, RaceLearner } from "./learners/scores.js";
import { Ellipsoid, RoundedSeparator } from "./learners/separators.js";
import { ParitySolver, VersionLists } from "./learners/small.js";
import { integer } from "./learners/universe.js";
import { Bayes, CanonicalWeights, scaleOf } from "./learners/weights.js";

const GAMMA = 95175598367531n; // floor(60 log2(e) 2^40)
const MOST_FIXED = 1 << 26;
const MOST_EACH = 1 << 13;

const one = (sizes) => {
  if (sizes.length !== 1) throw new ParameterError(`this rule reads one column, got ${sizes.length}`);
  return sizes[0];
};
const yesNo = (sizes) => {
  if (sizes.some((size) => size !== 2n))
    throw new ParameterError(`this rule reads columns with two values each, got ${sizes.join(", ")} values`);
  return sizes.length;
};

function rational(name, value) {
  const found = /^([+-]?)([0-9]{1,400})(?:\/([0-9]{1,400})|(?:\.([0-9]{1,300}))?(?:[eE]([+-]?[0-9]{1,3}))?)$/.exec(value);
  if (!found) throw new ParameterError(`${name} must be a number such as '1/20'`);
  const digits = found[4] ?? "";
  const top = BigInt(found[2] + digits) * (found[1] === "-" ? -1n : 1n);
  const power = BigInt(found[5] ?? 0) - BigInt(digits.length);
  if (found[3] !== undefined) return new Ratio(top, BigInt(found[3]));
  return power < 0n ? new Ratio(top, 10n ** -power) : new Ratio(top * 10n ** power);
}

/** The parameters of one learner; another one's are refused. */
function only(own, learner, allowed) {
  const strange = Object.keys(own).filter((name) => name !== "learner" && !allowed.includes(name));
  if (strange.length) throw new ParameterError(`learner='${learner}' does not use '${strange.sort()[0]}'`);
}

function race(scores) {
  return (sizes, own, records) => {
    const learner = own.learner ?? "race";
    const Gamma = own.Gamma ?? GAMMA;
    if (learner === "race") {
      only(own, learner, ["Gamma", "race", "cells"]);
      return new RaceLearner(scores(sizes, own), { Gamma, race: own.race });
    }
    if (learner === "reduction")
      throw new ManifestError(
        "the learner 'reduction' is not in this client; take part with the Python client, or ask for 'race' or 'lists'",
      );
    if (learner !== "lists")
      throw new ParameterError(`the learner must be 'race', 'lists' or 'reduction', got '${String(learner).slice(0, 40)}'`);
    only(own, learner, ["Gamma", "alpha", "parts", "cells", "share"]);
    return new VersionLists(scores(sizes, own), {
      Gamma,
      alpha: rational("alpha", own.alpha ?? "1/4"),
      parts: own.parts ?? 9n,
      share: rational("share", own.share ?? "0"),
      ...records,
    });
  };
}

function lists(sizes, own) {
  const d = yesNo(sizes);
  const [learner, k] = [own.learner ?? "race", own.k ?? 1n];
  const tests = countTests(d, k);
  const stages = integer("stages", own.stages ?? (tests < 4n ? tests : 4n), 1n, tests);
  if (learner === "race") {
    only(own, learner, ["Gamma", "k", "stages", "weight"]);
    return new StagewiseLists(d, { Gamma: own.Gamma ?? GAMMA, k, stages, weight: own.weight ?? 2n });
  }
  if (learner !== "queries")
    throw new ParameterError(`the learner of decision lists is 'race' or 'queries', got '${learner}'`);
  only(own, learner, ["k", "stages", "grid", "theta", "stop", "alpha"]);
  if (own.alpha === undefined) {
    return new QueryLists(d, {
      k,
      rules: stages,
      theta: rational("theta", own.theta ?? "1/20"),
      stop: rational("stop", own.stop ?? "1/20"),
      grid: own.grid ?? 50n,
    });
  }
  only(own, "queries with alpha", ["k", "alpha"]);
  const alpha = rational("alpha", own.alpha);
  if (alpha.top <= 0n || alpha.top >= alpha.bottom) throw new ParameterError("alpha must be between 0 and 1");
  return new QueryLists(d, {
    k,
    rules: tests,
    theta: alpha.over(new Ratio(4n * tests * tests)),
    stop: alpha.over(new Ratio(2n)),
    grid: new Ratio(16n * tests * tests).over(alpha).ceil(),
  });
}

function separators(sizes, own) {
  const learner = own.learner ?? "rounded";
  const bound = sizes.every((size) => size === 2n) ? null : sizes.reduce((a, b) => (a > b ? a : b)) - 1n;
  let inner;
  if (learner === "rounded") {
    only(own, learner, ["grid", "ridge", "stages", "scale"]);
    inner = new RoundedSeparator(sizes.length, bound, {
      grid: own.grid ?? 4n,
      ridge: rational("ridge", own.ridge ?? "1/50"),
      stages: own.stages ?? 2n,
    });
  } else if (learner === "queries") {
    only(own, learner, ["alpha", "scale"]);
    inner = new Ellipsoid(sizes.length, bound, own.alpha === undefined ? null : rational("alpha", own.alpha));
  } else throw new ParameterError(`the learner of halfspaces is 'rounded' or 'queries', got '${learner}'`);
  return new CanonicalWeights(inner, sizes, own.scale ?? scaleOf(sizes));
}

const junction = (every) => (sizes, own) =>
  new Junctions(yesNo(sizes), every, { keep: own.keep_at_most ?? 0n, grid: own.grid ?? 20n });

const RACE = { Gamma: "bigint", race: "string", learner: "string", alpha: "string", parts: "bigint", share: "string" };
const JUNCTION = { grid: "bigint", keep_at_most: "bigint" };
const text = "string";
const whole = "bigint";

const KINDS = {
  threshold: [race((sizes) => new Cuts([one(sizes)], ["above"])), RACE],
  "threshold-below": [race((sizes) => new Cuts([one(sizes)], ["below"])), RACE],
  stump: [race((sizes) => new Cuts(sizes)), RACE],
  point: [race((sizes) => new Points(one(sizes))), RACE],
  interval: [
    race((sizes, own) => new Intervals(one(sizes), own.cells ?? (one(sizes) < 128n ? one(sizes) : 128n))),
    { ...RACE, cells: whole },
  ],
  "hashed-point": [
    (sizes, own) =>
      new RaceLearner(
        new HashedPoints(one(sizes), own.functions ?? 3n, own.buckets ?? 64n, own.coins ?? "00".repeat(32)),
        { Gamma: own.Gamma ?? GAMMA },
      ),
    { Gamma: whole, functions: whole, buckets: whole, coins: text },
  ],
  parity: [
    (sizes, own, records) => {
      if (own.learner !== "solve") return race((found) => new Parities(yesNo(found)))(sizes, own, records);
      only(own, "solve", []);
      return new ParitySolver(yesNo(sizes));
    },
    RACE,
  ],
  conjunction: [junction(true), JUNCTION],
  disjunction: [junction(false), JUNCTION],
  "decision-list": [
    lists,
    { Gamma: whole, k: whole, stages: whole, weight: whole, learner: text, grid: whole, theta: text, stop: text, alpha: text },
  ],
  halfspace: [separators, { grid: whole, ridge: text, stages: whole, scale: whole, learner: text, alpha: text }],
  "naive-bayes": [
    (sizes, own) => new CanonicalWeights(new Bayes(sizes, own.grid ?? 20n), sizes, own.scale ?? scaleOf(sizes), true),
    { grid: whole, scale: whole },
  ],
};

/** The learner of a kind of rule over columns with so many values each. */
export function learnerOf(kind, sizes, parameters, records) {
  if (typeof kind !== "string" || !Object.hasOwn(KINDS, kind))
    throw new ManifestError(`this client knows the rules ${Object.keys(KINDS).join(", ")}; got '${String(kind).slice(0, 40)}'`);
  const [build, known] = KINDS[kind];
  const own = {};
  for (const [name, value] of parameters) {
    if (!Object.hasOwn(known, name))
      throw new ParameterError(`${kind} takes ${Object.keys(known).join(", ")}; got '${name.slice(0, 40)}'`);
    // Integers beyond 2^53 travel as text.
    own[name] = name === "Gamma" && ["string", whole].includes(typeof value) && /^[0-9]{1,20}$/.test(value) ? BigInt(value) : value;
    if (typeof own[name] !== known[name])
      throw new ParameterError(`${name} must be ${known[name] === whole ? "an integer" : "a text"}`);
  }
  const learner = build(sizes, own, records);
  const [fixed, each] = learner.work;
  if (fixed > MOST_FIXED || each > MOST_EACH)
    throw new ParameterError(
      `a client would compute too long for ${kind} on ${sizes.length} columns: ${fixed} steps and ${each} for each ` +
        `record, at most ${MOST_FIXED} and ${MOST_EACH}`,
    );
  return learner;
}
