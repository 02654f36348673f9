"""Runners of the sections of ``stability_and_protocols.json`` about local reports, shuffle noise and bytes on the
wire."""

from __future__ import annotations

from fractions import Fraction
from math import isclose
from typing import Any

from privpac.device.randomizers import HadamardSelection
from privpac.device.wire import LOCAL, SHUFFLE, canonical, pack_report, pack_shuffled, parse, run_id
from privpac.protocols.calibrate import delta_one, delta_two, noise_mass

__all__ = ["RUNNERS"]


def run_hadamard(case: dict[str, Any]) -> None:
    select = HadamardSelection(case["b"], Fraction(case["p"]))
    (estimates,) = select.estimates([(0, j, (sign + 1) // 2) for j, sign in case["messages"]])
    assert estimates == [Fraction(e) for e in case["estimates"]]


def run_negative_binomial(case: dict[str, Any]) -> None:
    printed = case["pmf_0_5"]
    for ball, expected in zip(noise_mass(case["r"], case["p"], len(printed) - 1), printed):
        assert isclose(float(ball), float(expected), rel_tol=1e-12)
    away, back = delta_one(case["r"], case["p"], str(case["eps"]))
    assert isclose(float(away), float(case["delta_Y_vs_Yplus1"]), rel_tol=1e-12, abs_tol=1e-25)
    assert isclose(float(back), float(case["delta_Yplus1_vs_Y"]), rel_tol=1e-12, abs_tol=1e-25)
    two = delta_two(case["r"], case["p"], str(case["two_bucket_eps"]))
    # The printed value is a double that contains one minus a sum near one: a rounding error of some 1e-14 (see
    # tests/protocols).
    assert isclose(float(two), case["delta_replace_two_buckets"], rel_tol=case["two_bucket_rtol"], abs_tol=5e-14)


def run_wire(case: dict[str, Any]) -> None:
    run = run_id(case["manifest"])
    assert canonical(case["manifest"]).decode() == case["canonical"]
    assert run.hex() == case["run_id"]
    local, shuffle = case["local"], case["shuffle"]
    assert pack_report(run, local["chunk"], local["j"], local["bit"]).hex() == local["bytes"]
    assert parse(run, bytes.fromhex(local["bytes"]), LOCAL) == (local["chunk"], local["j"], local["bit"])
    assert pack_shuffled(run, shuffle["bucket"]).hex() == shuffle["bytes"]
    assert parse(run, bytes.fromhex(shuffle["bytes"]), SHUFFLE) == (shuffle["bucket"],)


RUNNERS = {"hadamard": run_hadamard, "negative_binomial": run_negative_binomial, "wire": run_wire}
