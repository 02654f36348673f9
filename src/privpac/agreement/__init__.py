"""Agreement: many users turn their own records into the same item with the help of public randomness.

One user in, one item out.  Everything is integer arithmetic on the standard library and numpy, so that a device can run
it and every device gets the same bits.  A private selection among the users' items (elsewhere) is what protects them;
see ``learner``.

Names are resolved on first use; import from the modules themselves where a type checker should see signatures.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_ROOMS = {
    "conjunctions": ("SQConjunctions", "SQDisjunctions"),
    "coupling": ("race_disagreement", "stream_disagreement", "stream_sample", "total_variation"),
    "decision_lists": ("KDecisionList", "SQDecisionLists", "StagewiseDecisionList", "conjunction_tests", "count_tests"),
    "dyadic": (
        "Component",
        "Winner",
        "block_component",
        "interval_min",
        "leaf_component",
        "race_blocks",
        "race_dyadic",
        "race_scores",
    ),
    "ellipsoid": ("SQEllipsoid", "plan_ellipsoid"),
    "intervals": ("IntervalScores",),
    "learner": ("Hypothesis", "ListLearner", "Numbers", "Padded", "StableLearner", "Universe"),
    "lists": ("ListRaceLearner", "NearlyConsistentList", "VersionSpaceList", "plan_list_race", "race_lists"),
    "littlestone": ("Rows", "Search", "littlestone_dimension"),
    "naive_bayes": ("SQNaiveBayes",),
    "parity": ("ParitySolver",),
    "perceptron": ("SQPerceptron",),
    "population": ("stable_hypothesis",),
    "queries": ("QueryLearner",),
    "race": ("race_indexed", "race_named"),
    "records": ("Records", "clean"),
    "reduction": ("Reduction", "growth"),
    "reduction_list": ("PointsReductionList", "ReductionList", "choose_list"),
    "reduction_plan": ("accuracy_order", "cutoffs", "depths", "error_levels", "list_bound", "plan_reduction"),
    "representation": ("RaceLearner", "plan_race"),
    "rounding": ("Answers", "query_records", "round_shared"),
    "scores": ("CutScores", "ParityScores", "PointScores", "RuleScores", "TableScores"),
    "separator": ("RoundedSeparator",),
    "tournament": ("tournament_blocks", "tournament_lists"),
    "words": ("clock", "derive", "ilog2", "rate", "word_indexed", "word_named"),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'privpac.agreement' has no attribute {name!r}")
    value = getattr(import_module(f"privpac.agreement.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
