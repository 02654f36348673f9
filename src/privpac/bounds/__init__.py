"""Certified bounds on the number of users, as pure functions of public numbers.

Upper bounds (``plan_*``, ``certify_*``) say how many users suffice and on which assumption that rests; lower bounds
(``lower_*``) say how many no private algorithm can do without.  Both return a :class:`Certificate`.  Names are resolved
on first use; import from the modules themselves where a type checker should see signatures.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_ROOMS = {
    "agreement": (
        "lower_agreement_packing",
        "lower_agreement_representation",
        "records_list",
        "records_queries",
        "records_representation",
        "users_histogram",
        "users_local",
        "users_plurality",
        "users_shuffle",
    ),
    "agreement_chunks": ("users_local_chunks", "users_shuffle_chunks"),
    "agnostic": ("plan_item_proper", "plan_item_surrogate", "plan_threshold_search", "plan_user_agnostic"),
    "binomial": ("cross", "gap", "psi", "psi_exact", "robust_gap", "robust_t"),
    "certificate": ("Certificate",),
    "counts": ("certify_counts", "noise_quantile"),
    "deviation": ("agnostic_radius", "log_growth", "relative_deviation"),
    "lower": (
        "gilbert_varshamov",
        "lower_agnostic_vc",
        "lower_discrete",
        "lower_fano",
        "lower_gauss_mean",
        "lower_littlestone",
        "lower_packing",
        "lower_two_points",
    ),
    "lower_agnostic": ("lower_representation", "lower_sparse", "lower_statistics", "lower_testing"),
    "lower_candidates": ("lower_selection",),
    "median": (
        "certify_rank",
        "choosing_votes",
        "interior_point_closed_form",
        "interior_point_exponential",
        "log_star",
        "pairs_failure",
        "reductions_to_constant",
        "walk_failure",
    ),
    "own_clip": ("certify_clip_at", "certify_own_clip", "plan_own_clip"),
    "pairwise": ("certify_pairwise", "pairwise_closed_form", "plan_pairwise"),
    "rate_tables": ("table",),
    "rates": ("RateTable",),
    "realizable": ("certify_realizable", "plan_realizable", "realizable_closed_form"),
    "reduction": ("empirical_size", "inner_budget", "largest_rate", "solve_b", "theorem_a", "theorem_b", "theorem_c"),
    "reduction_plan": ("ReductionPlan", "plan_reduction"),
    "reduction_utility": ("certify_reduction", "reduction_excess", "selection_error"),
    "regret": (
        "RegretSplit",
        "amplification",
        "certify_regret_agnostic",
        "clip_candidates",
        "plan_clip",
        "regret_agnostic_corollary",
        "regret_bias_bound",
        "regret_split",
    ),
    "regret_bias": ("certify_regret_charged", "certify_regret_coin", "coin_bias"),
    "regret_noise": ("certify_regret_bounded_noise", "certify_regret_regular"),
    "transform": (
        "amplify",
        "deamplify",
        "group_budget",
        "group_privacy",
        "lddp_approx",
        "lddp_pure",
        "spg_pure",
        "subsample_size",
        "triangle",
        "user_complexity",
        "width_iid",
    ),
    "representation": ("BoostedSize", "PointsSize", "boosting_size", "points_representation"),
    "scheffe": ("certify_scheffe", "clipped_mean", "plan_scheffe"),
    "tree_plan": ("certified_alpha", "plan_tree"),
    "votes": (
        "certified_voters",
        "fewest_voters",
        "gamma_for_transcript",
        "most_queries",
        "part_size",
        "service_spend",
        "transcript_epsilon",
        "vote_epsilon",
        "vote_gamma",
        "vote_rho",
        "wrong_answer",
    ),
    "voices": ("certify_voices_any", "certify_voices_noise", "voices_excess"),
    "trees": ("TreeBudget", "generic_tree", "lower_tree", "spread_failure", "text_tree", "tree_failure"),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'privpac.bounds' has no attribute {name!r}")
    value = getattr(import_module(f"privpac.bounds.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
