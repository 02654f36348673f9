"""The analyzer: from what was sent to one rule.

Local reports are summed and decoded, shuffled messages counted, central items selected privately.  What is malformed,
of another run, repeated or impossible is dropped and counted; nothing that arrives can raise.  ``Analysis`` keeps the
numbers of messages apart from the ``Released`` rule.

**Guarantee.**  That of the manifest.  Local and shuffled messages were private before they came here, so decoding, and
asking whether the answer stands out from the noise, is post-processing.  Central items are not: a run is selected from
**once**, and a second call on the same items is a second release.

**No clear answer.**  If nobody named anything, or everybody something else, the largest of many noisy counts is still
some item.  The manifest publishes ``beta``: where no two people name the same item one is released with at most that
probability.  In chunks the values of one chunk may agree where items do not; there a value must be beyond what half of
the people could name, so an item put together from two chunks was named by somebody, and every part of a longer one by
a majority.  Otherwise, and when the decoded item is no rule, the manifest's default stands in, ``outcome="default"``.
Fewer than ``n_min`` clients of a shuffled run: ``outcome="none"``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any

from attrs import evolve, field, frozen

from privpac.bisection import least
from privpac.device.items import ItemUniverse
from privpac.device.keys import AnalyzerKey
from privpac.device.manifest import Manifest
from privpac.device.randomizers import BitReport, ChunkedHadamard, ShuffleSelection
from privpac.device.wire import HEAD, SEALED, frame, parse
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.law import BOTTOM
from privpac.mechanisms.votes import StableHistogram
from privpac.methods.agreement.agreement_learner import AgreedRule, pure_selection
from privpac.methods.agreement.plurality import local_edge, shuffle_edge
from privpac.protocols.domains import device_domains_of
from privpac.result import NoRelease, Outcome, Released
from privpac.rng import Rng, secret_rng
from privpac.special import binom, nbinom

# How many people named the released rule: an estimate, an interval, and a lower bound of their share.
#
# Nothing is spent on it: local and shuffled messages were private before they were counted, and a stable histogram's
# noisy count is covered by its guarantee.  The interval holds with probability ``confidence`` over the noise, for
# whichever item won, if the clients are honest.
#
# - *Local, one chunk.*  The sum of signs of ``n`` reports is within ``sqrt(2 n ln(2 U/beta))`` of its mean for all
#   ``U`` values at once (Hoeffding), and the mean is ``(2 keep - 1)`` times the people.  *Chunks.*  Those who report a
#   chunk are drawn from all without replacement; the same inequality applies, since a mean of products over draws
#   without replacement is at most the power of the mean (Maclaurin).  A person who shares every part of the item shares
#   the item, so the share is at least ``1 - sum (1 - share_k)`` and at most the least ``share_k``.
# - *Shuffled, one bucket per item.*  The count less a quantile of the noise, all buckets at once.  *Chunks.*  A person
#   reports each chunk with probability ``1/chunks``: the count is binomial in the number who share the value.
# - *Central, stable histogram.*  The noise is at most ``K``: the interval is certain.  A pure selection tells no count.


CONFIDENCE = Fraction(19, 20)
"""That of the intervals, unless certain."""


@frozen(slots=False)
class Support:
    """``low`` to ``high`` people named the rule; of ``people`` in all, where that number may be shown."""

    estimate: float
    low: int
    high: int
    people: int | None
    confidence: Fraction = CONFIDENCE

    @property
    def share(self) -> Fraction | None:
        """At least this share of the people named the rule, with probability ``confidence``."""
        return Fraction(self.low, self.people) if self.people else None

    def among(self, people: int) -> Support:
        """The same where everybody knows that ``people`` took part: nobody else can have named the rule.

        >>> print(support_central(504, 14, None).among(500))
        named by about 500 people (490 to 500, certain): at least 98 % of 500
        """
        return _within(self.estimate, self.low, self.high, people, self.confidence)

    def __str__(self) -> str:
        sure = "certain" if self.confidence == 1 else f"{float(self.confidence):.0%} confidence"
        text = f"named by about {self.estimate:.0f} people ({self.low} to {self.high}, {sure})"
        if self.share is None:
            return text
        return f"{text}: at least {math.floor(1000 * self.share) / 10:g} % of {self.people}"


def _within(estimate: float, low: float, high: float, people: int | None, confidence: Fraction = CONFIDENCE) -> Support:
    """Rounded outwards to whole people."""
    most = math.inf if people is None else people
    floor = int(min(most, max(0, math.ceil(low - 1e-6))))
    ceiling = int(max(floor, min(most, math.floor(high + 1e-6))))
    return Support(min(max(estimate, floor), ceiling), floor, ceiling, people, confidence)


def support_local(select: ChunkedHadamard, sums: Sequence[int], reports: Sequence[int]) -> Support:
    """From the sum of signs of the winner's value in every chunk, and the reports of every chunk."""
    people, chunks = sum(reports), select.chunks
    values = sum(2 << select.width_of(chunk) for chunk in range(chunks))  # two sides each
    slack, scale = math.log(values / float(1 - CONFIDENCE)), 1 / float(2 * select.keep - 1)
    shares = []
    for total, n in zip(sums, reports):
        off = scale * math.sqrt(2 * slack / n) if n else math.inf
        middle = scale * total / n if n else 0.0
        shares.append((middle, max(0.0, middle - off), min(1.0, middle + off)))
    low = 1 - sum(1 - share[1] for share in shares)
    return _within(people * min(share[0] for share in shares), people * low, people * min(s[2] for s in shares), people)


def support_shuffled(select: ShuffleSelection, counts: Sequence[int], clients: int) -> Support:
    """From the counts of the winner's buckets."""
    noise, p, side = float(select.share * clients), float(select.p), float(1 - CONFIDENCE) / (2 * select.buckets)
    most, fewest = int(nbinom.isf(side / 2, noise, 1 - p)), max(0, int(nbinom.ppf(side / 2, noise, 1 - p)))
    mean, sign = noise * p / (1 - p), 1 if select.direction == "over" else -1
    found = []
    for count in counts:
        # "under" counts what is missing: there the noise lowers a count.
        ends = (count - most, count - fewest) if sign > 0 else (count + fewest, count + most)
        real = count - sign * mean
        if select.chunks > 1:
            ends = (_fewest(max(0, ends[0]), select.chunks, side / 2), _most(ends[1], select.chunks, side / 2, clients))
            real *= select.chunks
        found.append((real, *ends))
    low = clients - sum(clients - max(0, entry[1]) for entry in found)
    return _within(min(entry[0] for entry in found), low, min(entry[2] for entry in found), clients)


def _fewest(seen: int, chunks: int, failure: float) -> int:
    """People of whom so many or more report one chunk with probability above ``failure``; fewer are refuted."""
    if seen <= 0:
        return 0
    return least(lambda m: bool(binom.sf(seen - 1, m, 1 / chunks) > failure), start=seen, limit=1 << 41) or seen


def _most(seen: int, chunks: int, failure: float, people: int) -> int:
    """The most people of whom so few report one chunk with probability above ``failure``."""
    more = least(
        lambda m: bool(binom.cdf(max(seen, 0), m, 1 / chunks) <= failure), start=max(seen, 0) + 1, limit=1 << 41
    )
    return people if more is None else more - 1


def support_central(noisy: int, K: int, people: int | None) -> Support:
    """From a stable histogram's noisy count."""
    return _within(noisy, noisy - K, noisy + K, people, Fraction(1))


Submissions = Iterable[tuple[Hashable, Iterable[object]]]
"""Each client's authenticated name with what it sent."""


@frozen(slots=False)
class Analysis:
    """A release, how many messages it was made from, and how many were dropped, by reason.

    Of a central run under add-remove the number of people is private, so ``received`` and ``dropped`` are ``None``.
    ``support`` says how many people named the rule.
    """

    released: Released
    received: int | None
    dropped: int | None
    reasons: Mapping[str, int] = field(factory=dict)
    support: Support | None = None

    def to_dict(self) -> dict[str, Any]:
        """What was received and dropped, and the support, as JSON; the release has a form of its own."""
        support: dict[str, Any] | None = None
        if self.support is not None:
            support = {name: getattr(self.support, name) for name in ("estimate", "low", "high", "people")}
            support["confidence"] = str(self.support.confidence)
        counts = {reason: count for reason, count in self.reasons.items() if count}
        return {"received": self.received, "dropped": self.dropped, "reasons": counts, "support": support}

    @classmethod
    def from_dict(cls, released: Released, values: Mapping[str, Any]) -> Analysis:
        """The inverse, beside the release."""
        support = values["support"]
        if support is not None:
            support = Support(**{**support, "confidence": Fraction(support["confidence"])})
        return cls(released, values["received"], values["dropped"], values["reasons"], support)

    @property
    def drop_rate(self) -> float | None:
        """The share of all messages that was dropped."""
        if self.received is None or self.dropped is None:
            return None
        return self.dropped / max(1, self.received + self.dropped)

    def __str__(self) -> str:
        if self.received is None:
            text = "the number of messages is private in this model and is not shown"
        else:
            why = ", ".join(f"{count} {reason}" for reason, count in self.reasons.items() if count)
            text = f"{self.received} messages, {self.dropped} dropped" + (f" ({why})" if why else "")
        return text if self.support is None else f"{text}\n{self.support}"


def guarantee_of(manifest: Manifest) -> Guarantee:
    """What the manifest promises; ``Manifest`` has checked that its mechanism keeps it."""
    return Guarantee(
        manifest.epsilon, manifest.delta, unit=Unit.USER, neighbours=manifest.neighbours, model=manifest.protocol
    )


def without_promise(released: Released) -> Released:
    """The same result, made with randomness that can be known."""
    return evolve(released, guarantee=None, insecure=True)


# The three models


def analyze_local(
    manifest: Manifest, submissions: Submissions, *, key: AnalyzerKey | None = None, beta: Rational | None = None
) -> Analysis:
    """From one report per client (of several the first is kept) to a rule.

    Parameters
    ----------
    manifest
        The run.
    submissions
        Every client's authenticated name with what it sent.
    key
        The analyzer's private key, for a sealed run.
    beta
        Instead of the manifest's.
    """
    _for(manifest, "local")
    failure, select = _beta(manifest, beta), manifest.local
    seen, reasons = _first_messages(manifest, submissions, key)
    reports = [report for report in seen.values() if select.accepts(report)]
    reasons["impossible"] = len(seen) - len(reports)
    sizes = Counter(chunk for chunk, _, _ in reports)
    each, spectra = [sizes[chunk] for chunk in range(select.chunks)], select.spectra(reports)
    number = likeliest(select, spectra, each, failure)
    released = _released(manifest, number)
    support = None
    if number is not None and released.outcome == "released":
        parts = [
            int(sums[(number >> (chunk * select.width)) & ((1 << select.width_of(chunk)) - 1)])
            for chunk, sums in enumerate(spectra)
        ]
        support = support_local(select, parts, each)
    return Analysis(released, len(reports), sum(reasons.values()), dict(reasons), support)


def decode_reports(select: ChunkedHadamard, reports: list[BitReport], beta: float) -> int | None:
    """The likeliest number, or ``None`` if a chunk of it could be that of people who do not agree."""
    sizes = Counter(chunk for chunk, _, _ in reports)
    return likeliest(select, select.spectra(reports), [sizes[chunk] for chunk in range(select.chunks)], beta)


def likeliest(select: ChunkedHadamard, spectra: Iterable[Any], sizes: Sequence[int], beta: float) -> int | None:
    """The same from each chunk's sums of signs and number of reports."""
    number, places = 0, sum(1 << select.width_of(chunk) for chunk in range(select.chunks))
    edges = local_edge(select.keep, sizes, places, select.chunks, beta)
    for chunk, sums in enumerate(spectra):
        best = int(sums.argmax())
        if float(sums[best]) <= edges[chunk]:
            return None
        number |= best << (chunk * select.width)
    return number


def analyze_shuffled(
    manifest: Manifest,
    buckets: Iterable[object],
    clients: int,
    *,
    key: AnalyzerKey | None = None,
    beta: Rational | None = None,
) -> Analysis:
    """From mixed messages (bytes, or bucket numbers as the shuffler of an unsealed run gives them) to a rule.

    Parameters
    ----------
    manifest
        The run.
    buckets
        The messages.
    clients
        How many distinct clients they are from.
    key
        The analyzer's private key, for a sealed run.
    beta
        Instead of the manifest's.
    """
    _for(manifest, "shuffle")
    failure, select = _beta(manifest, beta), manifest.shuffle
    good: list[int] = []
    reasons: Counter[str] = Counter()
    read = _reader(manifest, key, reasons)
    for message in buckets:
        found = (message,) if isinstance(message, int) and manifest.analyzer is None else read(message)
        if found is not None and 0 <= found[0] < select.buckets:
            good.append(found[0])
        elif found is not None:
            reasons["impossible"] += 1
    dropped = sum(reasons.values())
    if clients < select.n_min:
        return Analysis(_released(manifest, None, enough=False), len(good), dropped, dict(reasons))
    counts = select.counts(good, clients)
    number = decode_counts(select, counts, clients, failure)
    released, support = _released(manifest, number), None
    if number is not None and released.outcome == "released":
        support = support_shuffled(select, [counts[place] for place in select.places(number)], clients)
    return Analysis(released, len(good), dropped, dict(reasons), support)


def decode_counts(select: ShuffleSelection, counts: Sequence[int], clients: int, beta: float) -> int | None:
    """The number with the largest counts, or ``None`` if one of these could be that of people who do not agree.

    Each bucket holds ``NB(share * clients, p)`` noise if all were honest.  Missing noise makes that test stricter,
    never looser. ``direction="under"`` counts what is missing, so noise only lowers a count.
    """
    number = select.decode(counts)
    if number is None:
        return None
    over, p = select.direction == "over", float(select.p)
    noise = float(select.share * clients)
    # At most so many have something to say; that the noise of the last bucket is larger is one of the ``buckets``
    # events.
    most = int(nbinom.isf(beta / select.buckets, noise, 1 - p)) if over else 0
    speak = min(clients, max(0, clients - counts[select.null] + most))
    edge = shuffle_edge(noise if over else 0.0, p, select.buckets, beta, speak=speak, chunks=select.chunks)
    return number if min(counts[place] for place in select.places(number)) > edge else None


def analyze_central(
    manifest: Manifest, submissions: Submissions, rng: Rng | None = None, *, key: AnalyzerKey | None = None
) -> Analysis:
    """One item per client, selected with the manifest's selector.  Spends the guarantee: once per run.

    Parameters
    ----------
    manifest
        The run.
    submissions
        Every client's authenticated name with what it sent.
    rng
        For tests.
    key
        The analyzer's private key, for a sealed run.
    """
    _for(manifest, "central")
    source, learner = secret_rng(rng), manifest.task.learner
    seen, reasons = _first_messages(manifest, submissions, key)
    votes: Counter[int] = Counter()
    for (item,) in seen.values():
        number = _number(learner.universe, item)
        if item and (number is None or learner.decode(item) is None):
            reasons["impossible"] += 1
        elif item:
            votes[number or 0] += 1
    # Under add-remove how many took part is private.
    people = len(seen) - reasons["impossible"] if manifest.neighbours == Neighbours.REPLACE else None
    support = None
    drawn: Any
    if manifest.selector == "histogram":
        stable = StableHistogram(manifest.epsilon, delta=manifest.delta, neighbours=manifest.neighbours, named=2)
        drawn, noisy = stable.noisy(dict(votes), source)
        support = None if drawn is BOTTOM else support_central(noisy, stable.K, people)
    else:
        pure = pure_selection(manifest.epsilon, manifest.task, manifest.beta, manifest.neighbours)
        drawn = pure.sample(dict(votes), source)
    released = _released(manifest, None if drawn is BOTTOM else int(drawn))
    released = released if source.secure else without_promise(released)
    if people is None:
        return Analysis(released, None, None, support=support)
    return Analysis(released, people, sum(reasons.values()), dict(reasons), support)


# Parts


def _for(manifest: Manifest, protocol: str) -> None:
    if manifest.protocol != protocol:
        raise ParameterError(f"this run is {manifest.protocol}, not {protocol}")


def _beta(manifest: Manifest, beta: Rational | None) -> float:
    return float(manifest.beta if beta is None else rational(beta, "beta", above=0, below=1))


def _reader(
    manifest: Manifest, key: AnalyzerKey | None, reasons: Counter[str]
) -> Callable[[object], tuple[Any, ...] | None]:
    """Reads one message, or says why not.  A sealed message is read once: a copy would count its sender twice."""
    if manifest.analyzer is None:

        def plain(message: object) -> tuple[Any, ...] | None:
            found = parse(manifest.run, message, manifest.kind)
            reasons["malformed"] += found is None
            return found

        return plain
    if key is None:
        raise ParameterError("this run is sealed; its analysis needs the analyzer's private key (--key analyzer.key)")
    if key.public != manifest.analyzer:
        raise ParameterError("this is not the private key of the manifest's analyzer; nothing was analysed")
    opened, fill = set[bytes](), manifest.item_bytes if manifest.protocol == "central" else 0
    right = frame(manifest.kind, manifest.run, SEALED)

    def sealed(message: object) -> tuple[Any, ...] | None:
        if not isinstance(message, bytes) or message[:HEAD] != right:
            reasons["malformed"] += 1
            return None
        if message in opened:
            reasons["copied"] += 1
            return None
        opened.add(message)
        text = key.open(manifest.run, manifest.kind, message)
        found = None if text is None else parse(manifest.run, text, manifest.kind, fill)
        reasons["unreadable"] += found is None
        return found

    return sealed


def _first_messages(
    manifest: Manifest, submissions: Submissions, key: AnalyzerKey | None
) -> tuple[dict[Hashable, tuple[Any, ...]], Counter[str]]:
    """The first well-formed message of every client, and how many others there were, by reason."""
    seen: dict[Hashable, tuple[Any, ...]] = {}
    reasons: Counter[str] = Counter()
    read = _reader(manifest, key, reasons)
    for client, messages in submissions:
        for message in islice(messages, 1 << 16):
            if client in seen:
                reasons["repeated"] += 1
                continue
            found = read(message)
            if found is not None:
                seen[client] = found
    return seen, reasons


def _number(universe: ItemUniverse, item: bytes) -> int | None:
    """The number of an item, if the bytes are the canonical ones."""
    try:
        number = universe.number(item)
        return number if universe.item(number) == item else None
    except (ParameterError, TypeError, ValueError, OverflowError):
        return None


def _released(manifest: Manifest, number: int | None, *, enough: bool = True) -> Released:
    """The rule of a number; where it stands for none the default; of fewer than ``n_min`` clients nothing."""
    task, universe = manifest.task, manifest.task.learner.universe
    item = None if number is None or number >= universe.size else universe.item(number)
    outcome: Outcome = "released"
    if item is None or task.learner.decode(item) is None:
        item, outcome = manifest.default, "default"
    rule: object = NoRelease
    if item is None or not enough:
        outcome = "none"
    else:
        rule = AgreedRule(task.kind, device_domains_of(manifest.columns), item, task.parameters, manifest.label)
    parameters = {"model": manifest.protocol, "rule": task.kind, "min_records": task.min_records}
    parameters |= {"beta": str(manifest.beta), "run": manifest.run.hex()[:16]}
    return Released(rule, guarantee_of(manifest), parameters, outcome, learner="agreement")
