"""The one way from data to a release: ask for room, validate, **spend, and only then touch data and coins**.

The spend is on disk before the first draw, so a crash wastes budget and never leaks; nothing is refunded, because a
failure may itself depend on the data.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Protocol

from attrs import evolve

from privpac.errors import (
    EngineError,
    EntropyError,
    IncompatibleGuarantees,
    InsecureRandomnessError,
    ParameterError,
)
from privpac.guarantee import Guarantee, Neighbours
from privpac.ledger.ledger import BudgetLedger, LedgerLike
from privpac.parameters import plain_text, seconds
from privpac.result import Released
from privpac.rng import Rng, _insecure, secret_rng

_log = logging.getLogger(__name__)

_PART = (
    "a replace promise does not cover one part of a split: somebody with another id may belong to another part, and "
    "then this one loses a person; use neighbours='add-remove', or split(..., ids='public') if ids are known and fixed"
)

UNTOLD = (
    "the release failed after the data were touched; what was spent stays spent, and why is not told: it may depend on "
    "the data"
)


class Releasable(Protocol):
    """What ``release`` needs: a promise known before any data, a check of the data, one draw."""

    @property
    def guarantee(self) -> Guarantee: ...

    def bind(self, data: Any, /) -> Any:
        """Validate public parameters and the data's schema; the last place where data may raise."""

    def draw(self, bound: Any, rng: Rng, /) -> Released:
        """Touch data and coins once."""


def release(
    learner: Releasable,
    data: Any,
    *,
    rng: Rng | None = None,
    ledger: LedgerLike | None = None,
    label: str | None = None,
    spend_id: str | None = None,
    expected_head: str | None = None,
    not_before: float | None = None,
) -> Released:
    """Validate, spend, draw, return: what every learner's ``learn`` does.

    Parameters
    ----------
    learner : learner
        Public.  Its ``guarantee`` is the price.
    data : users
        Private; bound, and so checked, before anything is spent.
    rng : Rng, optional
        The system's randomness unless given; seeded ones are refused with a ledger and give a result without a
        guarantee otherwise.
    ledger : BudgetLedger or path, optional
        Where the spend is written first.
    label : str, optional
        Public.  What the ledger's entry is called.
    spend_id : str, optional
        Names the entry, so that the same spend is not made twice.
    expected_head : str, optional
        What the ledger's ``head()`` was when the caller looked: if somebody spent since, nothing is spent or drawn
        (``LedgerChanged``).
    not_before : float, optional
        Seconds from the call before which nothing is returned, errors included.

    Returns
    -------
    Released

    Raises
    ------
    ParameterError, SchemaError, BudgetExhausted, LedgerChanged
        Before anything is spent; afterwards nothing is raised that depends on the data.

    Notes
    -----
    With a ledger, ``learner.guarantee`` is on disk before ``draw`` runs, whatever happens after; there are
    no refunds.

    Examples
    --------
    >>> from privpac.data import Integers, UserData
    >>> from privpac.methods.hybrid import HybridSelection
    >>> from privpac.rules import Thresholds
    >>> people = UserData.from_users([[(3, 0), (8, 1)], [(2, 0)]] * 50, features={"x": Integers(0, 9)})
    >>> release(HybridSelection(Thresholds(), epsilon=1), people).outcome
    'released'
    """
    start = time.monotonic()
    rng = secret_rng(rng)
    ledger = None if ledger is None else BudgetLedger.of(ledger)
    if not rng.secure and (ledger is not None or not _insecure.get()):
        where = "a ledger pays for system randomness only" if ledger is not None else "this generator is for tests only"
        raise InsecureRandomnessError(
            f"{where}, not for {type(rng).__name__}; leave rng out (tests: privpac.testing.insecure_randomness())"
        )
    deadline = None if not_before is None else start + seconds(not_before, "not_before")
    price = _price(learner, ledger)
    label = plain_text(type(learner).__name__ if label is None else label, "label", 200)
    if spend_id is not None and ledger is None:
        raise ParameterError("spend_id names a ledger entry, but no ledger was given; pass ledger=")
    if expected_head is not None and ledger is None:
        raise ParameterError("expected_head is the head of a ledger, but no ledger was given; pass ledger=")
    if learner.guarantee.neighbours is Neighbours.REPLACE and getattr(data, "part_of_split", False):
        raise IncompatibleGuarantees(_PART)
    again: tuple[str, ...] = ()
    if ledger is not None:
        ledger.check_room(price, spend_id)
        again = _again(ledger, price, label)
    bound = learner.bind(data)
    try:
        paid = {}
        if ledger is not None:
            receipt = ledger.spend(price, label, spend_id, expected_head=expected_head)
            receipt.use()
            paid = {"dataset": ledger.dataset, "receipt": receipt.spend_id}
        released = _draw(learner, bound, rng)
        if isinstance(released, Released) and ledger is not None:  # a prediction session has no such places
            released = evolve(released, about={**released.about, **paid}, warnings=(*released.warnings, *again))
        return released if rng.secure else evolve(released, guarantee=None, insecure=True)
    finally:
        _wait(deadline)


def _draw(learner: Releasable, bound: Any, rng: Rng) -> Released:
    """The draw, which fails in fixed words: the data have been touched, and the budget is spent."""
    # Whatever its class, an error may come of the data and quote them: those of values out of place do, an engine's own
    # do, and a class of one's own may fail in any way.  Randomness that cannot be had is no secret, and an EngineError
    # has fixed words already.
    try:
        return learner.draw(bound, rng)
    except (EngineError, EntropyError, InsecureRandomnessError):
        raise
    except Exception:
        failed = EngineError(UNTOLD)
    raise failed from None  # outside, so that no traceback carries what went wrong


def _again(ledger: BudgetLedger, price: Guarantee, label: str) -> tuple[str, ...]:
    """Whether the ledger paid the same price for the same before, as when a notebook's cell is run twice: its own lines
    say so, which are public; that the data were the same it does not know."""
    times, last = ledger.bought(price, label)
    if not times:
        return ()
    often = "once" if times == 1 else f"{times} times"
    return (
        f"this spends again: the ledger paid {price.summary} for {label!r} {often} before, last at {last}; a saved "
        "result is read again free of charge (save, load)",
    )


def check_room(learner: Releasable, ledger: LedgerLike | None) -> None:
    """Refuse what the ledger cannot pay for (``BudgetExhausted``), before any data are looked at."""
    ledger = None if ledger is None else BudgetLedger.of(ledger)
    price = _price(learner, ledger)
    if ledger is not None:
        ledger.check_room(price)


def _price(learner: Releasable, ledger: BudgetLedger | None) -> Guarantee:
    """What the ledger is charged: the learner's guarantee, under the ledger's relation."""
    guarantee = learner.guarantee
    if not isinstance(guarantee, Guarantee):
        raise TypeError(f"learner.guarantee must be a Guarantee, got {type(guarantee).__name__}")
    if ledger is None:
        return guarantee
    if not isinstance(ledger, BudgetLedger):
        raise TypeError(f"ledger must be a BudgetLedger, got {type(ledger).__name__}")
    mine, theirs = guarantee.neighbours, ledger.budget.neighbours
    if (mine, theirs) == (Neighbours.REPLACE, Neighbours.ADD_REMOVE):
        raise IncompatibleGuarantees(
            "an add-remove ledger cannot pay for a replace learner: replace treats the number of users as public; "
            "build the learner with neighbours='add-remove', or keep the dataset under a replace ledger"
        )
    price = guarantee.to_replace() if (mine, theirs) == (Neighbours.ADD_REMOVE, Neighbours.REPLACE) else guarantee
    ledger.budget.require_same_tags(price)
    return price


def _wait(deadline: float | None) -> None:
    if deadline is None:
        return
    left = deadline - time.monotonic()
    if left > 0:
        time.sleep(left)
    else:
        _log.warning("a release ended after its public deadline; choose a later not_before")
