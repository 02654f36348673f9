"""Plans of selections: the clip that known candidates allow, caps, and what stays general."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privpac.bounds import plan_scheffe
from privpac.data import Floats, Integers
from privpac.distributions import CoverLearner, HypothesisSelector

sys.path.insert(0, str(Path(__file__).parent))
from literal import users_of

PUBLIC: dict[str, Any] = {"candidates_are": "public"}


def test_known_candidates_get_their_own_clip_and_fewer_users() -> None:
    """The plan with the probabilities of these pairs is what the bounds say, and the law and the result use its
    clip."""
    selector = HypothesisSelector([[20, 80], [50, 50], [80, 20]], 1, records_per_user=16, alpha="1/4", **PUBLIC)
    domains = {"x": Integers(0, 1)}
    comparison = selector.comparison(domains)
    unit = comparison.unit
    direct = plan_scheffe(
        probabilities=[Fraction(q, unit) for q in (comparison.q[i, j] for i in range(3) for j in range(3) if i != j)],
        log_size=np.log(3),
        epsilon=1,
        alpha1="1/4",
        beta="1/20",
        records_per_user=16,
        rounding=Fraction(1, 2 * unit),
    )
    found, usual = selector.certificate_for(domains), selector.certificate
    assert found is not None
    assert usual is not None
    assert (found.n_users, found["tau"]) == (direct.n_users, direct["tau"])
    assert found.n_users is not None
    assert usual.n_users is not None
    assert found.n_users < 0.95 * usual.n_users
    assert selector.top_for(comparison) == int(np.ceil(unit * float(found["tau"]))) < selector.top
    data = users_of([[0, 1, 1], [0]], x=domains["x"])
    assert selector.learn(data).parameters["tau"] == found["tau"]
    declared = HypothesisSelector([[20, 80], [50, 50], [80, 20]], 1, tau=found["tau"], resolution=unit, **PUBLIC)
    weights = [selector.law(data).prob_float(i) for i in range(3)]
    assert weights == pytest.approx([declared.law(data).prob_float(i) for i in range(3)])


def test_records_beyond_the_cap_count_for_nothing() -> None:
    given: dict[str, Any] = PUBLIC | {"alpha": "1/4"}
    capped = HypothesisSelector([[20, 80], [80, 20]], 1, records_per_user=64, max_records=4, **given)
    fewer = HypothesisSelector([[20, 80], [80, 20]], 1, records_per_user=4, max_records=4, **given)
    for found, expected in (
        (capped.certificate, fewer.certificate),
        (capped.certificate_for({"x": Integers(0, 1)}), fewer.certificate_for({"x": Integers(0, 1)})),
    ):
        assert found is not None
        assert found == expected
    cover = CoverLearner("discrete", 1, alpha="1/4", records_per_user=64, max_records=4).certificate_for(
        {"x": Integers(0, 1)}
    )
    assert cover == CoverLearner("discrete", 1, alpha="1/4", records_per_user=4, max_records=4).certificate_for(
        {"x": Integers(0, 1)}
    )


def test_sampled_probabilities_keep_the_general_clip() -> None:
    domains = {"a": Floats(), "b": Floats()}
    same = [stats.multivariate_normal([0, 0]), stats.multivariate_normal([1, 0])]
    other = [stats.multivariate_normal([0, 0]), stats.multivariate_normal([0, 0], [[2, 0], [0, 2]])]
    for laws, known in ((same, True), (other, False)):
        selector = HypothesisSelector(laws, 1, records_per_user=16, samples=2000, **PUBLIC)
        assert (selector.certificate_for(domains) == selector.certificate) is not known
