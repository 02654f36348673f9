"""The same parameters are accepted everywhere: what can be planned can be learned, and the other way round."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Command

import privpac as pp
from privpac.errors import ParameterError
from privpac.parameters import MAX_EPSILON
from privpac.protocols import LocalProtocol
from privpac.protocols.calibrate import calibrate
from privpac.rules.small_trees import SmallTrees

CUTS = pp.Thresholds(pp.Integers(0, 9))
ALMOST = Fraction(MAX_EPSILON) + Fraction(1, 10**9)


def people() -> pp.UserData:
    return pp.UserData.from_users([[(3, 0), (8, 1)], [(2, 0)], [(9, 1)]], features={"x": pp.Integers(0, 9)})


def fitted(epsilon: Any) -> Any:
    sklearn = pytest.importorskip("privpac.sklearn")
    made = sklearn.PrivateRuleClassifier(epsilon=epsilon, domains=[pp.Integers(0, 9)], classes=[0, 1])
    return made.fit(np.array([[1.0], [8.0]]), [0, 1], groups=[1, 2])


PLACES: dict[str, Callable[[Any], Any]] = {
    "learn": lambda e: pp.learn(people(), CUTS, epsilon=e),
    "learn, mean": lambda e: pp.learn(people(), CUTS, epsilon=e, method="mean"),
    "plan": lambda e: pp.plan(CUTS, epsilon=e, alpha="0.3", records_per_user=1, setting="realizable"),
    "plan of small trees": lambda e: pp.plan(SmallTrees({"x": pp.Integers(0, 3)}), epsilon=e, records_per_user=1),
    "plan of a histogram": lambda e: pp.plan("histogram", bins=4, epsilon=e, records_per_user=1),
    "plan of alpha": lambda e: pp.plan(CUTS, epsilon=e, n_users=50, records_per_user=1, setting="realizable"),
    "evaluate": lambda e: pp.evaluate(CUTS.decode(3), people(), epsilon=e),
    "quantile": lambda e: pp.quantile(people(), "x", epsilon=e),
    "local protocol": lambda e: LocalProtocol("threshold", {"x": pp.Integers(0, 9)}, e),
    "bounds": lambda e: calibrate(e, "1e-6", "1/2"),
    "estimator": fitted,
}


@pytest.mark.parametrize("place", PLACES)
def test_one_largest_epsilon(place: str) -> None:
    PLACES[place](MAX_EPSILON)
    for above in (ALMOST, 10 * MAX_EPSILON):
        with pytest.raises(ParameterError, match=f"epsilon must be <= {MAX_EPSILON}"):
            PLACES[place](above)
    with pytest.raises(ParameterError):
        PLACES[place](-1)


def test_one_largest_epsilon_on_the_command_line(command: Command) -> None:
    Path("people.csv").write_text("who,x,y\n1,3,0\n2,8,1\n")
    table = ("people.csv", "--user", "who", "--label", "y", "--feature", "x=0:9")
    for words in (("learn", *table), ("plan", "thresholds", "--domain", "10", "-m", "1", "--setting", "realizable")):
        assert command(*words, "--epsilon", MAX_EPSILON).code == 0
        refused = command(*words, "--epsilon", f"{MAX_EPSILON}.001")
        assert refused.code == 2
        assert f"epsilon must be <= {MAX_EPSILON}" in refused.err


@pytest.mark.parametrize("beta", [0, 1, -1, "1e-30", "0.999", "nan", True])
def test_the_same_beta_is_planned_and_learned(beta: Any) -> None:
    def accepted(call: Callable[[], Any]) -> bool:
        try:
            call()
        except (ParameterError, TypeError):
            return False
        return True

    def planned() -> Any:
        return pp.plan(CUTS, epsilon=1, beta=beta, records_per_user=1, setting="realizable")

    def learned() -> Any:
        return pp.learn(people(), CUTS, epsilon=1, method="pairwise", alpha="0.3", records_per_user=2, beta=beta)

    assert accepted(planned) == accepted(learned)


LITERAL = re.compile(
    r"^(?!_?MAX)\w*LEVELS = (?:840|1 << 20|720_720)$|^_?MAX_EPSILON = \d"
    r"|beta: [^=\n]*= (?:field\(default=)?(?:\"0?\.05\"|0\.05|\"1/20\"|Fraction\(1, 20\))"
    r"|levels: [^=\n]*= (?:field\(default=)?840",
    re.MULTILINE,
)


def test_defaults_stand_in_one_place() -> None:
    """No other module writes the usual beta, levels or largest epsilon as a literal of its own."""
    written = ("_LEVELS = 840", "MAX_EPSILON = 100", 'beta: Rational = "0.05",', "levels: int = 840")
    assert all(map(LITERAL.search, written))
    found = {
        f"{path.name}: {match.group()}"
        for path in Path(pp.__file__).parent.rglob("*.py")
        for match in LITERAL.finditer(path.read_text())
        if path.name != "parameters.py"
    }
    assert found == set()
