"""One class for one situation.

Every error says what was seen, what is allowed and what to do.  None of them may depend on private data once
budget has been spent: an exception that depends on the data is an output.  ``SchemaError`` is the curator's
alone; it names a column, a broken rule and a count, never a value.
"""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The end of a message about a name that nothing has: the known name that is nearest, nothing if none is near.

    >>> did_you_mean("ID", ["id", "age"]), did_you_mean("hybird", ["hybrid", "mean"]), did_you_mean("x", ["id"])
    ("; did you mean 'id'?", "; did you mean 'hybrid'?", '')
    """
    from difflib import get_close_matches  # only where something is wrong already

    def bare(text: str) -> str:
        return "".join(letter for letter in text[:100].casefold() if letter.isalnum())

    listed = [one for one in known if one != name]
    words = {bare(one): one for one in reversed(listed)}
    near = get_close_matches(bare(name), list(words), 1, 0.7) if isinstance(name, str) and bare(name) else []
    return f"; did you mean {words[near[0]]!r}?" if near else ""


class PrivpacError(Exception):
    """Base of everything the library raises on purpose."""


# Parameters and public numbers


class ParameterError(PrivpacError, ValueError):
    """A parameter is outside its range; seen before any data are touched."""


class DeclarationError(ParameterError, TypeError):
    """What must be said about a table is missing, or said twice; the message has the call to write."""


class MissingExtra(PrivpacError, ImportError):
    """A package that the base install does without is not here; the message has the line that installs it."""


class InfeasibleError(ParameterError):
    """The target cannot be reached with these public numbers; the message says what would suffice."""


class TooLargeError(PrivpacError):
    """Size or work, judged from public numbers, is over a limit; the message names the alternative."""


class DimensionLimit(TooLargeError):
    """A dimension could only be enclosed within the work limit: ``lower <= dimension <= upper``."""

    def __init__(self, lower: int, upper: int | None, message: str = "") -> None:
        self.lower, self.upper = lower, upper
        top = "unknown" if upper is None else str(upper)
        super().__init__(message or f"the dimension is at least {lower} and at most {top}; raise the work limit")


class NotVC1Error(ParameterError):
    """The class shatters two points, so it is not of VC dimension 1.

    ``points`` are the two points and ``rows`` four concepts that show the patterns 00, 01, 10, 11 on them, where they
    are known.
    """

    def __init__(
        self, message: str, points: tuple[int, int] | None = None, rows: tuple[int, int, int, int] | None = None
    ) -> None:
        self.points, self.rows = points, rows
        super().__init__(message)


# Data, laws, guarantees


class SchemaError(PrivpacError, ValueError):
    """The data break the declared schema (curator only: column, rule and count, never a value)."""


class LawError(PrivpacError, ValueError):
    """A probability law is ill-formed, or two laws live on different domains."""


class Undecided(PrivpacError, ArithmeticError):
    """An exact decision was not reached within the precision limit; never replaced by a guess."""


class EngineError(PrivpacError, RuntimeError):
    """A fold was not finished: the cluster failed, or files changed under it.  What was spent before stays spent."""


class IncompatibleGuarantees(PrivpacError, ValueError):
    """Two guarantees differ in unit, neighbouring relation or model and were about to be mixed."""


class NoReleaseError(PrivpacError, RuntimeError):
    """Nothing was released, so there is nothing to predict with."""


class ManifestError(PrivpacError, ValueError):
    """A protocol manifest was refused."""


class ModelFileError(PrivpacError, ValueError):
    """A model or session file cannot be read."""


# Randomness


class EntropyError(PrivpacError, RuntimeError):
    """The source of randomness failed or ran dry; there is no fallback."""


class InsecureRandomnessError(PrivpacError, RuntimeError):
    """A generator that is not the system's was used outside ``privpac.testing.insecure_randomness()``."""


# Ledger


class LedgerError(PrivpacError):
    """Base of everything the budget ledger refuses."""


class BudgetExhausted(LedgerError):
    """The spend would exceed the budget; nothing was written."""

    def __init__(self, remaining: object, requested: object, message: str = "") -> None:
        self.remaining, self.requested = remaining, requested
        super().__init__(message or f"budget exhausted: {requested} requested, {remaining} left; nothing was spent")


class LedgerChanged(LedgerError):
    """Somebody spent since the head that the caller saw; nothing was written."""


class DuplicateSpend(LedgerError):
    """The spend id was used before; a retry would release twice on one payment."""


class LedgerBusy(LedgerError):
    """Another process holds the ledger's lock; try again."""


class LedgerCorrupt(LedgerError):
    """The chain, the sums or the file itself do not verify."""


class LedgerMismatch(LedgerError):
    """The ledger was created with another budget, rule, unit, relation, model or dataset."""


class LedgerUnavailable(LedgerError):
    """The file cannot be used as a durable ledger; ``uncertain`` if a line was being written, which may count as
    spent."""

    uncertain = False


# Warnings: computed from public numbers only, raised before data are touched


class PrivpacWarning(UserWarning):
    """Base of the library's warnings."""


class WeakGuaranteeWarning(PrivpacWarning):
    """The guarantee is formally valid but promises little."""


class AccuracyWarning(PrivpacWarning):
    """The declared public numbers do not certify the accuracy asked for."""


class ItemLevelWarning(PrivpacWarning):
    """No user column was given: single records, not people, are protected."""
