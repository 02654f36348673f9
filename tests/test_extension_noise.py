"""A noise defined outside the package, in one class: it works in histograms, their certificates, files, reports, audits
and the estimator; what it may not do is refused, and the audit finds what it does wrong."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from attrs import evolve, frozen

import privpac as pp
from privpac.auditing import audit_exact, datasets, user_universe
from privpac.bisection import least_from
from privpac.data import Integers, UserData
from privpac.distributions import AveragedHistogram, ClippedHistogram, Histogram, OwnShares, RecordCounts
from privpac.errors import ParameterError
from privpac.exact import Ball, dyadic_base
from privpac.guarantee import Guarantee
from privpac.law import Law
from privpac.law.blocks import FiniteLaw
from privpac.law.numbers import Quotient
from privpac.mechanisms import Change, Laplace, Noise
from privpac.rng import Rng, secret_rng
from privpac.sklearn import PrivateHistogram
from privpac.testing import SeededRng, insecure_randomness


@frozen
class Bounded(Noise):
    """Geometric noise that is never larger than ``kappa``: weight ``base**-|z|`` for ``|z| <= kappa``.

    ``(epsilon, delta)``: a change of ``t`` in all keeps ratios within ``base**t <= e**epsilon`` but where a noisy value
    becomes impossible.  A coordinate that moves by ``v`` loses its ``v`` outermost values; their masses rise inwards,
    so over all coordinates together the ``t`` outermost ones of a single coordinate are the worst: ``delta``.
    """

    base: Fraction
    kappa: int
    guarantee: Guarantee

    title: ClassVar[str] = "bounded geometric"

    # Privacy

    @classmethod
    def within(cls, budget: Guarantee, change: Change, parts: int) -> Self:
        epsilon, delta = budget.epsilon / parts, budget.delta / parts
        if not delta:
            raise ParameterError("bounded noise needs delta above 0")
        cost = Guarantee(epsilon, delta, unit=budget.unit, neighbours=budget.neighbours)
        base, lost = dyadic_base(epsilon / change.total), change.total
        kappa = least_from(lambda k: cls(base, k, cost)._outer(lost) <= delta, lost)
        return cls(base, kappa, cost)

    def _weight(self, z: int) -> int:
        p, q = self.base.numerator, self.base.denominator
        return p ** (self.kappa - abs(z)) * q ** abs(z)

    def _whole(self) -> int:
        return sum(map(self._weight, range(-self.kappa, self.kappa + 1)))

    def _outer(self, many: int) -> Fraction:
        """The mass of so many outermost values of one side."""
        return Fraction(sum(self._weight(self.kappa - i) for i in range(many)), self._whole())

    # Law and draws

    def law(self, value: int, *, bounds: tuple[int, int]) -> FiniteLaw:
        lo, hi = bounds
        masses: dict[int, Fraction] = {}
        for z in range(-self.kappa, self.kappa + 1):
            at = min(max(value + z, lo), hi)
            masses[at] = masses.get(at, Fraction(0)) + Fraction(self._weight(z), self._whole())
        return FiniteLaw([(range(at, at + 1), Quotient.of(mass)) for at, mass in sorted(masses.items())], {})

    def sample(self, value: int, rng: Rng | None = None) -> int:
        ends = list(accumulate(map(self._weight, range(-self.kappa, self.kappa + 1))))
        drawn = secret_rng(rng).below(ends[-1])
        return value - self.kappa + next(i for i, end in enumerate(ends) if drawn < end)

    # Accuracy

    def tail(self, t: int) -> Ball:
        mass = 2 * self._outer(max(0, self.kappa - t + 1)) if t > 0 else Fraction(1)
        return Ball(mass, mass)


DELTA = "1/20"
PEOPLE = datasets(user_universe([0, 1], 2), 2)
SHARES: dict[str, Any] = {"noise": Bounded, "delta": DELTA, "levels": 2}


def people(users: Any) -> UserData:
    return UserData.from_users([list(user) for user in users], features={"x": Integers(0, 1)}, labelled=False)


def crowd() -> UserData:
    return people([(0,), (0, 1), (1, 1, 1)] * 300)


def audit(histogram: Histogram, **claimed: Any) -> Any:
    """Everything that is released is computed from these sums."""

    def law(users: tuple[Any, ...]) -> Law:
        return histogram.law_of_sums(people(users), bounds=(-60, 60))

    promised = {"epsilon": histogram.epsilon, "delta": histogram.delta, "neighbours": histogram.neighbours}
    return audit_exact(law, PEOPLE, **(promised | claimed))


# Privacy


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("epsilon", [2, 4])
def test_the_promise_holds_for_every_pair_of_neighbours(epsilon: int, neighbours: str) -> None:
    shares = AveragedHistogram(epsilon, neighbours=neighbours, **SHARES)
    counts = ClippedHistogram(epsilon, neighbours=neighbours, noise=Bounded, delta=DELTA, max_records=2)
    for histogram in (shares, counts):
        assert audit(histogram).holds
        assert not audit(histogram, delta=Fraction(1, 500)).holds


def test_the_smallest_noise_that_keeps_the_promise_is_taken() -> None:
    histogram = AveragedHistogram(2, **SHARES)
    noise = histogram.cell_noise(1)
    assert isinstance(noise, Bounded)
    smaller = evolve(noise, kappa=noise.kappa - 1)
    histogram.__dict__["alone"] = smaller
    assert not audit(histogram).holds


def test_the_public_audit_decides_it_and_its_sampler() -> None:
    histogram = AveragedHistogram(2, **SHARES)

    def law(data: UserData) -> Law:
        return histogram.law_of_sums(data, bounds=(-60, 60))

    found = pp.audit(law, universe=PEOPLE, build=people, epsilon=2, delta=DELTA, neighbours="add-remove")
    assert found
    assert not pp.audit(law, universe=PEOPLE, build=people, epsilon=1, delta=DELTA, neighbours="add-remove")


def test_draws_follow_the_law() -> None:
    """20,000 draws: each frequency is within 0.03 of its probability but for 2 e**(-2 * 20,000 * 0.03**2) < 1e-15."""
    noise = AveragedHistogram(2, **SHARES).cell_noise(1)
    with insecure_randomness():
        drawn = noise.sample_vector([5] * 20_000, SeededRng(3))
    law = noise.law(5, bounds=(-50, 50))
    for value in range(5 - 40, 5 + 41):
        assert abs(drawn.count(value) / len(drawn) - float(law.prob(value))) < 0.03
    reach = noise.reach("1/10")
    assert noise.tail(reach + 1).hi <= Fraction(1, 10) < noise.tail(reach).lo


class Greedy(Bounded):
    """Scaled to twice the budget, which its own guarantee says."""

    @classmethod
    def within(cls, budget: Guarantee, change: Change, parts: int) -> Self:
        double = Guarantee(2 * budget.epsilon, budget.delta, unit=budget.unit, neighbours=budget.neighbours)
        return super().within(double, change, parts)


class Wide(Bounded):
    """Mutation: scaled as if a person moved a single step."""

    @classmethod
    def within(cls, budget: Guarantee, change: Change, parts: int) -> Self:
        return super().within(budget, Change(1, 1), parts)


def test_noise_that_costs_too_much_is_refused_or_found() -> None:
    with pytest.raises(ParameterError, match="together more than"):
        AveragedHistogram(1, noise=Greedy, delta=DELTA, levels=2)
    with pytest.raises(ParameterError, match="needs delta"):
        AveragedHistogram(1, noise=Bounded)
    with pytest.raises(ParameterError, match="two stages"):
        ClippedHistogram(1, noise=Bounded, delta=DELTA, max_records=2, stages=2)
    with pytest.raises(TypeError, match="noise such as Laplace"):
        Histogram(1, noise=3)  # type: ignore[arg-type]
    assert not audit(AveragedHistogram(1, noise=Wide, delta=DELTA, levels=2)).holds


# Everywhere else


def test_learning_files_and_reports(tmp_path: Path) -> None:
    released = pp.learn_distribution(crowd(), epsilon=2, noise=Bounded, delta="1e-3", levels=4)
    assert released.learner == "averaged histogram, bounded geometric noise"
    assert released.parameters["noise"] == "bounded geometric"
    assert released.guarantee is not None
    assert released.guarantee.summary == "(2, 0.001)-DP per user, add-remove"
    assert "bounded geometric noise on the users' own shares" in released.guarantee.derivation[0]
    assert float(released.value.probabilities[1]) == pytest.approx(0.5, abs=0.1)
    released.save(tmp_path / "histogram.json")
    again = pp.Released.load(tmp_path / "histogram.json")
    assert (again.value, again.guarantee, again.parameters) == (
        released.value,
        released.guarantee,
        released.parameters,
    )
    page = released.report(tmp_path / "histogram.html").read_text()
    assert "bounded geometric" in page


def test_several_columns_share_the_budget() -> None:
    rows = [[(k % 2, 1 - k % 2)] for k in range(600)]
    data = UserData.from_users(rows, features={"a": Integers(0, 1), "b": Integers(0, 1)}, labelled=False)
    for contribution in (OwnShares(levels=2), RecordCounts()):
        histogram = Histogram(2, contribution=contribution, noise=Bounded, delta="1e-3", max_records=3)
        assert histogram.cell_noise(2).guarantee.epsilon == 1
        assert [part.feature for part in histogram.learn(data).value.parts] == ["a", "b"]


def test_the_certificate_follows_from_the_tail() -> None:
    """More than 22 failures of 100 at 1/20 have probability below 1e-8."""
    histogram = AveragedHistogram(1, noise=Bounded, delta="1e-3", levels=12)
    certificate = histogram.certificate(2, alpha="0.2", beta="0.05")
    n = certificate.n_users
    assert n is not None
    assert n <= histogram.certificate(2, alpha="0.15", beta="0.05").n_users
    assert certificate.parameters == {"levels": 12}
    rng, failures = np.random.default_rng(7), 0
    for _ in range(100):
        data = people([(int(value),) for value in rng.integers(0, 2, n)])
        failures += abs(float(histogram.learn(data).value.probabilities[0]) - 0.5) > 0.2
    assert failures <= 22


def test_the_estimator_takes_it() -> None:
    model = PrivateHistogram(bins=None, domains=[Integers(0, 1)], epsilon=2, max_records=2, noise=Bounded, delta="1e-3")
    fitted = model.fit(np.array([[0], [1], [1], [1]] * 100), groups=np.repeat(np.arange(200), 2))
    assert fitted.released_.parameters["noise"] == "bounded geometric"
    assert float(fitted.distribution_.probabilities[1]) == pytest.approx(0.75, abs=0.1)
    assert type(model)(**model.get_params()).noise is Bounded


class Cheap(Laplace):
    """A hundredth of the noise that the promise needs."""

    @classmethod
    def within(cls, budget: Guarantee, change: Change, columns: int = 1) -> Laplace:
        more = Guarantee(budget.epsilon * 100, unit=budget.unit, neighbours=budget.neighbours)
        return super().within(more, change, columns)


def test_a_class_derived_from_a_noise_of_the_package_is_checked_like_any_other() -> None:
    with pytest.raises(ParameterError, match="together more than"):
        AveragedHistogram(1, noise=Cheap)


def test_what_a_noise_calls_rho_is_not_charged() -> None:
    class Claims(Laplace):
        rho = Fraction(1, 10**9)

    learner = AveragedHistogram(1, noise=Claims)
    assert learner.guarantee.rho == AveragedHistogram(1).guarantee.rho
