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
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from privpac.bounds.agreement.plurality import local_edge, shuffle_edge
from privpac.bounds.laws import nbinom
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Guarantee, Unit
from privpac.law import BOTTOM
from privpac.learners.agreement.learner import pure_selection
from privpac.learners.agreement.rule import AgreedRule
from privpac.mechanisms.votes import PureSelection, StableHistogram
from privpac.protocols.domains import domains_of
from privpac.protocols.hadamard import ChunkedHadamard, Report
from privpac.protocols.manifest import Manifest
from privpac.protocols.shuffle import ShuffleSelection
from privpac.protocols.wire import CENTRAL, LOCAL, SHUFFLE, parse
from privpac.released import NoRelease, Outcome, Released
from privpac.rng import Rng, secret_rng

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
    """A release, how many messages it was made from, and how many were dropped."""

    released: Released
    received: int
    dropped: int

    @property
    def drop_rate(self) -> float:
        """The share of all messages that was dropped."""
        return self.dropped / max(1, self.received + self.dropped)


def promise(manifest: Manifest) -> Guarantee:
    """What the manifest promises; ``Manifest`` has checked that its mechanism keeps it."""
    return Guarantee(
        manifest.epsilon, manifest.delta, unit=Unit.USER, neighbours=manifest.neighbours, model=manifest.protocol
    )


def without_promise(released: Released) -> Released:
    """The same result, made with randomness that can be known."""
    return replace(released, guarantee=None, insecure=True)


# The three models


def analyze_local(manifest: Manifest, submissions: Submissions, *, beta: Rational | None = None) -> Analysis:
    """One report per client; of several the first is kept.  ``beta`` instead of the manifest's."""
    _for(manifest, "local")
    failure, select = _beta(manifest, beta), manifest.local
    seen, dropped = _first_messages(manifest, submissions, LOCAL)
    reports = [report for report in seen.values() if select.accepts(report)]
    dropped += len(seen) - len(reports)
    return Analysis(_released(manifest, decode_reports(select, reports, failure)), len(reports), dropped)


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
    manifest: Manifest, buckets: Iterable[object], clients: int, *, beta: Rational | None = None
) -> Analysis:
    """Messages (bytes, or bucket numbers as the shuffler gives them) of so many distinct clients; ``beta`` instead of
    the manifest's."""
    _for(manifest, "shuffle")
    failure, select = _beta(manifest, beta), manifest.shuffle
    good, dropped = [], 0
    for message in buckets:
        bucket = message if isinstance(message, int) else (parse(manifest.run, message, SHUFFLE) or (-1,))[0]
        if 0 <= bucket < select.buckets:
            good.append(bucket)
        else:
            dropped += 1
    if clients < select.n_min:
        return Analysis(_nothing(manifest), len(good), dropped)
    number = decode_counts(select, select.counts(good, clients), clients, failure)
    return Analysis(_released(manifest, number), len(good), dropped)


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


def analyze_central(manifest: Manifest, submissions: Submissions, rng: Rng | None = None) -> Analysis:
    """One item per client, selected with the manifest's selector.  Spends the guarantee: once per run."""
    _for(manifest, "central")
    source, learner = secret_rng(rng), manifest.task.learner
    seen, dropped = _first_messages(manifest, submissions, CENTRAL)
    votes: Counter[int] = Counter()
    for (item,) in seen.values():
        number = _number(learner.universe, item)
        if number is None or learner.decode(item) is None:
            dropped += 1
        else:
            votes[number] += 1
    selector: StableHistogram | PureSelection
    if manifest.selector == "histogram":
        selector = StableHistogram(manifest.epsilon, delta=manifest.delta, neighbours=manifest.neighbours, named=2)
    else:
        selector = pure_selection(manifest.epsilon, manifest.task, manifest.beta, manifest.neighbours)
    drawn = selector.sample(dict(votes), source)
    released = _released(manifest, None if drawn is BOTTOM else int(drawn))
    return Analysis(released if source.secure else without_promise(released), sum(votes.values()), dropped)


# Parts


def _for(manifest: Manifest, protocol: str) -> None:
    if manifest.protocol != protocol:
        raise ParameterError(f"this run is {manifest.protocol}, not {protocol}")


def _beta(manifest: Manifest, beta: Rational | None) -> float:
    return float(manifest.beta if beta is None else rational(beta, "beta", above=0, below=1))


def _first_messages(
    manifest: Manifest, submissions: Submissions, kind: int
) -> tuple[dict[Hashable, tuple[Any, ...]], int]:
    """The first well-formed message of every client, and how many others there were."""
    seen: dict[Hashable, tuple[Any, ...]] = {}
    dropped = 0
    for client, messages in submissions:
        for message in islice(messages, 1 << 16):
            read = parse(manifest.run, message, kind)
            if read is None or client in seen:
                dropped += 1
            else:
                seen[client] = read
    return seen, dropped


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
