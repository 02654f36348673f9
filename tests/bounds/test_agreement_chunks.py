"""Pluralities told in chunks fail no more often than certified: exact failure probabilities for one and two chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import fftconvolve
from scipy.stats import binom, nbinom

from privpac.errors import ParameterError
from privpac.methods.agreement.plurality import local_edge, users_local_chunks, users_shuffle_chunks

Array = NDArray[np.float64]


def failure(n: int, chunks: int, success: Array) -> float:
    """From the success of one chunk with 0..n users to that of all; chunks are independent given how many users they
    get."""
    if chunks == 1:
        return 1 - float(success[n])
    assert chunks == 2
    return 1 - float((binom.pmf(np.arange(n + 1), n, 0.5) * success[: n + 1] * success[n::-1]).sum())


def shuffled_success(n: int, r: float, p: float, width: int, share: float, rivals: int, first: int = 1) -> Array:
    """Success of one chunk: the right count plus noise above all others; wrong votes are split evenly over ``rivals``
    values."""
    last = int(nbinom.isf(1e-16, r, 1 - p)) + 1
    y = np.arange(last + 1)
    mass, below = nbinom.pmf(y, r, 1 - p), np.concatenate([[0.0], np.cumsum(nbinom.pmf(y, r, 1 - p))])

    def under(k: Any) -> Array:
        return np.asarray(below[np.clip(k, 0, last + 1)])  # Pr[Y < k]

    out = np.zeros(n + 1)
    for k in range(first, n + 1):
        for c, weight in enumerate(binom.pmf(np.arange(k + 1), k, share).tolist()):
            if weight > 1e-14:
                votes = [(k - c + i) // rivals for i in range(rivals)]
                beaten = under(y + c) ** ((1 << width) - 1 - rivals)
                for v in votes:
                    beaten = beaten * under(y + c - v)
                out[k] += weight * float(mass @ beaten)
    return out


@pytest.mark.parametrize(
    ("r", "p", "bits", "width", "share"),
    [
        (10.0, 0.5, 2, 2, 0.9),
        (10.0, 0.5, 4, 2, 0.9),
        (1.5, 0.05, 2, 1, 0.9),
        (1.5, 0.05, 1, 1, 0.6),
        (3.0, 0.3, 2, 1, 1.0),
        (2.0, 0.7, 3, 3, 0.7),
    ],
)
def test_shuffled_chunks_fail_no_more_often_than_certified(
    r: float, p: float, bits: int, width: int, share: float
) -> None:
    for beta in (0.5, 0.05):
        n = users_shuffle_chunks(r, p, bits, width, beta=beta, share=share).n_users
        assert n is not None
        for rivals in {1, min(2, (1 << width) - 1), (1 << width) - 1}:
            found = failure(
                n, -(-bits // width), shuffled_success(n, r, p, width, share, rivals, n if bits <= width else 1)
            )
            assert found <= beta / 3, (beta, rivals)


def test_the_shuffled_bound_is_not_far_above_the_exact_failure() -> None:
    """At share 0.6 and one rival almost nothing is given away, so a smaller bound would be wrong."""
    n = users_shuffle_chunks(45.3, 0.449, 1, 1, beta=0.1, share=0.6).n_users
    assert n is not None
    assert failure(n, 1, shuffled_success(n, 45.3, 0.449, 1, 0.6, 1, n)) > 0.9 * 0.1 / 3


def test_one_rival_is_the_worst_of_all_ways_to_vote_otherwise() -> None:
    """The step of the proof: min(1, sum of Pr[D >= c - v]) is largest with all other votes on one value."""
    for r, p in ((1.01, 0.9), (3.0, 0.3), (45.3, 0.449), (1.2, 0.01)):
        last = int(nbinom.isf(1e-16, r, 1 - p)) + 1
        mass = nbinom.pmf(np.arange(last + 1), r, 1 - p)
        tail = np.cumsum(np.convolve(mass, mass[::-1])[::-1])[::-1]

        def at_least(k: int, tail: Array = tail, last: int = last) -> float:
            return float(tail[min(max(k, -last), last) + last])

        for n in range(1, 13):
            for c in range(n + 1):
                rest = n - c
                worst = min(1.0, at_least(c - rest) + 3 * at_least(c))
                for a in range(rest + 1):
                    for b in range(rest - a + 1):
                        split = sum(at_least(c - v) for v in (a, b, rest - a - b))
                        assert min(1.0, split) <= worst + 1e-9, (r, p, n, c, a, b)


def local_success(n: int, keep: float, chunks: int, silent: bool) -> Array:
    """Width 1: success of one chunk with 0..n users, the analyzer's own test for a clear answer (at 1/20) included.

    A report changes (half the lead of the right value over the other, the right value's sum) by a sign; the others name
    the other value, or nothing.
    """
    one = np.zeros((3, 3))
    for j in (0, 1):
        for sign, told in ((1, keep), (-1, 1 - keep)):
            one[1 + sign * j, 1 + sign] += 0.9 * 0.5 * told
            other = sign if j == 0 else -sign
            one[1 + other * j, 1 + other] += 0.1 * 0.5 * (0.5 if silent else told)
    law, out = np.ones((1, 1)), [0.0]
    for k in range(1, n + 1):
        law = fftconvolve(law, one)
        lead, total = np.arange(-k, k + 1)[:, None], np.arange(-k, k + 1)[None, :]
        out.append(
            float(law[(lead > 0) & (total > float(local_edge(str(keep), [k], 2 * chunks, chunks, "1/20")[0]))].sum())
        )
    return np.array(out)


@pytest.mark.parametrize(
    ("keep", "bits", "beta"), [("0.98", 1, 0.6), ("0.98", 1, 0.05), ("0.9", 1, 0.6), ("0.98", 2, 0.6)]
)
def test_local_chunks_fail_no_more_often_than_certified(keep: str, bits: int, beta: float) -> None:
    n = users_local_chunks(keep, bits, 1, beta=beta, clear="1/20").n_users
    assert n is not None
    for silent in (False, True):
        assert failure(n, bits, local_success(n, float(keep), bits, silent)) <= beta / 3
    assert failure(n // 12, bits, local_success(n // 12, float(keep), bits, False)) > beta / 3  # few reports do fail


def test_numbers_at_the_ends_are_safe() -> None:
    assert users_local_chunks("0.50000000001", 8, 8, beta="0.1").n_users is None
    assert users_shuffle_chunks(10, "0.5", 4, 2, beta="1e-30").n_users is None  # beyond the accuracy of the tails
    few, many = (users_local_chunks("0.9", 64, 8, beta=beta).n_users for beta in ("0.1", "1e-40"))
    assert few is not None
    assert many is None or many > few
    sure, unsure = (users_local_chunks("0.9", 16, 8, beta="0.1", share=share).n_users for share in (1, "0.51"))
    assert sure is not None
    assert unsure is not None
    assert sure < unsure


@pytest.mark.parametrize(
    "wrong",
    [{"keep": "1/2"}, {"keep": 1}, {"bits": 0}, {"width": 0}, {"width": 65}, {"beta": 0}, {"share": "1/2"}],
    ids=range(7),
)
def test_bad_input_is_refused(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"keep": "0.9", "bits": 16, "width": 8, "beta": "0.1"} | wrong
    with pytest.raises(ParameterError):
        users_local_chunks(given.pop("keep"), given.pop("bits"), given.pop("width"), **given)
