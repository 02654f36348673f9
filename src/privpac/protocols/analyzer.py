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

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.law import BOTTOM
from privpac.mechanisms.votes import StableHistogram
from privpac.methods.agreement.agreement_learner import AgreedRule, pure_selection
from privpac.methods.agreement.plurality import local_edge, shuffle_edge
from privpac.protocols.domains import domains_of
from privpac.protocols.hadamard import ChunkedHadamard, Report
from privpac.protocols.manifest import Manifest
from privpac.protocols.seal import AnalyzerKey
from privpac.protocols.shuffle import ShuffleSelection
from privpac.protocols.support import Support, support_central, support_local, support_shuffled
from privpac.protocols.wire import HEAD, SEALED, frame, parse
from privpac.result import NoRelease, Outcome, Released
from privpac.rng import Rng, secret_rng
from privpac.special import nbinom

__all__ = [
    "Analysis",
    "Submissions",
    "analyze_central",
    "analyze_local",
    "analyze_shuffled",
    "decode_counts",
    "decode_reports",
    "likeliest",
    "promise",
    "without_promise",
]

Submissions = Iterable[tuple[Hashable, Iterable[object]]]
"""Each client's authenticated name with what it sent."""

_METHOD = "agreement"


@dataclass(frozen=True)
class Analysis:
    """A release, how many messages it was made from, and how many were dropped, by reason.

    Of a central run under add-remove the number of people is private, so ``received`` and ``dropped`` are ``None``.
    ``support`` says how many people named the rule (:mod:`privpac.protocols.support`).
    """

    released: Released
    received: int | None
    dropped: int | None
    reasons: Mapping[str, int] = field(default_factory=dict)
    support: Support | None = None

    @property
    def drop_rate(self) -> float | None:
        """The share of all messages that was dropped."""
        if self.received is None or self.dropped is None:
            return None
        return self.dropped / max(1, self.received + self.dropped)

    def __str__(self) -> str:
        if self.received is None:
            said = "the number of messages is private in this model and is not shown"
        else:
            why = ", ".join(f"{count} {reason}" for reason, count in self.reasons.items() if count)
            said = f"{self.received} messages, {self.dropped} dropped" + (f" ({why})" if why else "")
        return said if self.support is None else f"{said}\n{self.support}"


def promise(manifest: Manifest) -> Guarantee:
    """What the manifest promises; ``Manifest`` has checked that its mechanism keeps it."""
    return Guarantee(
        manifest.epsilon, manifest.delta, unit=Unit.USER, neighbours=manifest.neighbours, model=manifest.protocol
    )


def without_promise(released: Released) -> Released:
    """The same result, made with randomness that can be known."""
    return replace(released, guarantee=None, insecure=True)


# The three models


def analyze_local(
    manifest: Manifest,
    submissions: Submissions,
    *,
    key: AnalyzerKey | None = None,
    beta: Rational | None = None,
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


def decode_reports(select: ChunkedHadamard, reports: list[Report], beta: float) -> int | None:
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
        return Analysis(_nothing(manifest), len(good), dropped, dict(reasons))
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


def _number(universe: Any, item: bytes) -> int | None:
    """The number of an item, if the bytes are the canonical ones."""
    try:
        number = int(universe.number(item))
        return number if universe.item(number) == item else None
    except (ParameterError, TypeError, ValueError, OverflowError):
        return None


def _released(manifest: Manifest, number: int | None) -> Released:
    learner = manifest.task.learner
    item = None if number is None or number >= learner.universe.size else learner.universe.item(number)
    if item is not None and learner.decode(item) is not None:
        return _made(manifest, item, "released")
    return _nothing(manifest) if manifest.default is None else _made(manifest, manifest.default, "default")


def _made(manifest: Manifest, item: bytes, outcome: Outcome) -> Released:
    rule = AgreedRule(manifest.task.kind, domains_of(manifest.columns), item, manifest.task.parameters, manifest.label)
    return Released(rule, promise(manifest), _shown(manifest), outcome, learner=_METHOD)


def _nothing(manifest: Manifest) -> Released:
    return Released(NoRelease, promise(manifest), _shown(manifest), "none", learner=_METHOD)


def _shown(manifest: Manifest) -> dict[str, Any]:
    return {
        "model": manifest.protocol,
        "rule": manifest.task.kind,
        "min_records": manifest.task.min_records,
        "beta": str(manifest.beta),
        "run": manifest.run.hex()[:16],
    }
