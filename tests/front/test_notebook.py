"""Cards in notebooks: they say what ``print`` says, show nothing private, fetch nothing, and names in them are text."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from attrs import evolve
from test_hostile_pages import HOSTILE, Reader

import privpac as pp
from privpac.display import Picture
from privpac.distributions.results import DiscreteDistribution
from privpac.errors import ParameterError
from privpac.evaluation import Evaluation
from privpac.guarantee import Guarantee
from privpac.planning import Plan
from privpac.report.notebook import fragment
from privpac.report.pages import standing
from privpac.result import NoRelease, Released
from privpac.rules.base import Frozen
from privpac.rules.cuts import Threshold
from privpac.rules.halfspaces import Halfspace

PROMISE = Guarantee(1, unit="user", neighbours="add-remove")
AGE = pp.Integers(0, 99)
FOUND = Evaluation((400, 30, 50, 320), "table", "user", 1, 1, "add-remove", "0.95")  # type: ignore[arg-type]
TAGS = {"div", "style", "span", "table", "tr", "th", "td", "details", "summary"}
DRAWN = {"svg", "g", "defs", "path", "rect", "use", "clippath", "image"}


@cache
def planned() -> Plan:
    """Its card holds no name but those of methods; put together by hand, it simulates nothing."""
    made = pp.plan(pp.Thresholds(AGE), epsilon=1, records_per_user=(1, 4))
    return evolve(made, asked=None)


def cards(name: str, folder: Path) -> dict[str, Any]:
    """A value of every kind, with the name wherever a name can be."""
    rule = Threshold(name, AGE, 40, label=name)
    sum_of_three = Halfspace(Frozen(((name, AGE), ("b", AGE), ("c", AGE))), (1, 1, -1), (10, 10, 10), 3, label=name)
    people = pp.UserData.from_frame(
        pl.DataFrame({"who": [1, 1, 2], name: [3, 4, 5], "y": [0, 1, 1]}), user="who", features={name: AGE}, label="y"
    )
    ledger = pp.BudgetLedger(folder / f"{abs(hash(name))}.db", PROMISE, dataset="d" + plain(name))
    ledger.spend(Guarantee("1/2", unit="user", neighbours="add-remove"), "s" + plain(name))
    return {
        "released": Released(rule, PROMISE, {f"its {name}": name}, warnings=(name,), learner=name),
        "default": Released(
            sum_of_three, PROMISE, {f"its {name}": name}, outcome="default", findings={"evaluation": FOUND}
        ),
        "distribution": Released(DiscreteDistribution(name, pp.Categories([name, "b"]), (1, 2)), PROMISE),
        "none": Released(NoRelease, None, {f"its {name}": name}, outcome="none", insecure=True),
        "rule": rule,
        "evaluation": FOUND,
        "guarantee": Guarantee(4, "1e-6", unit="user", neighbours="add-remove", derivation=(name,)),
        "plan": planned(),
        "data": people,
        "ledger": ledger,
    }


def plain(name: str) -> str:
    """What a ledger takes for a name."""
    return re.sub(r"[^\x20-\x7e]", "", name)[:60]


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reader]:
    return {key: Reader(value._repr_html_()) for key, value in cards("calm", tmp_path_factory.mktemp("calm")).items()}


@pytest.mark.parametrize("which", list(HOSTILE))
def test_a_hostile_name_is_text_on_every_card(which: str, calm: dict[str, Reader], tmp_path: Path) -> None:
    name = HOSTILE[which]
    for key, value in cards(name, tmp_path).items():
        text = value._repr_html_()
        seen = Reader(text)
        assert seen.tags <= TAGS | DRAWN, key
        assert seen.tags == calm[key].tags, f"{key}: a name brought a tag with it"
        assert seen.attributes == calm[key].attributes, f"{key}: a name brought an attribute with it"
        assert not re.search("[\u200e\u200f\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f]", text), key
        if key in ("released", "rule", "data", "guarantee"):
            assert standing(name).splitlines()[0] in "".join(seen.texts), key


def test_cards_fetch_nothing_and_style_nothing_but_themselves(tmp_path: Path) -> None:
    for key, value in cards("calm", tmp_path).items():
        text = value._repr_html_()
        assert set(re.findall(r"https?://[^\s\"'<]*", text)) <= {
            "http://www.w3.org/2000/svg",
            "http://www.w3.org/1999/xlink",
        }, key
        style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
        assert style is not None
        for rule in re.findall(r"([^{}]+)\{", style[1]):
            assert all(part.strip().startswith(".privpac") for part in rule.split(",")), rule


def test_cards_of_data_show_the_schema_and_no_value_or_count() -> None:
    """Two tables with one schema have one card, whatever is in them."""
    one = pp.UserData.from_users([[(3, 0), (77, 1)], []], features={"age": AGE})
    other = pp.UserData.from_users([[(5, 1)]] * 131, features={"age": AGE})
    assert one._repr_html_() == other._repr_html_()
    open_texts = [
        pp.UserData.from_users([[(text, 1)]], features={"path": pp.Texts()})._repr_html_() for text in ("a/b", "z")
    ]
    assert open_texts[0] == open_texts[1]
    unbound = [pp.UserData.from_users([[(x, 1)]])._repr_html_() for x in (1, 2.5)]
    assert unbound[0] == unbound[1]
    assert "no domain declared yet" in unbound[0]


def test_a_card_says_what_print_says() -> None:
    released = Released(Threshold("age", AGE, 40, label="ill"), PROMISE, {"levels": 16}, findings={"evaluation": FOUND})
    text = "".join(Reader(released._repr_html_()).texts)
    for line in (str(released.value), PROMISE.short, PROMISE.odds, FOUND.sentence()):
        assert line in text
    assert "bad" in Guarantee(4, unit="user", neighbours="add-remove")._repr_html_()


def test_other_values_have_no_card() -> None:
    with pytest.raises(ParameterError, match="no card of a int"):
        fragment(3)


# Pictures and reports in one call


def test_everything_can_be_plotted_and_saved(tmp_path: Path) -> None:
    for key, value in cards("$x_1$ <b>", tmp_path).items():
        if isinstance(value, Released) or key == "rule":
            picture = value.plot()
            assert isinstance(picture, Picture)
            assert picture._repr_svg_().startswith("<svg"), key
    rule = Threshold("age", AGE, 40, label="ill")
    assert repr(rule.plot()) == "<Picture: ill when age > 39>"
    assert rule.plot().svg == rule.plot().svg, "no dates or random ids in it"
    for kind, begins in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        assert rule.plot().save(tmp_path / f"rule.{kind}").read_bytes().startswith(begins)
    with pytest.raises(ParameterError, match=r"\.svg, \.png or \.pdf"):
        rule.plot().save(tmp_path / "rule.bmp")
    with pytest.raises(ParameterError, match="choose a writable place"):
        rule.plot().save(tmp_path / "nowhere" / "rule.svg")
    assert "never" in Threshold("age", AGE, 100, label="ill").plot().alt


def test_a_report_is_one_call_whatever_was_released(tmp_path: Path) -> None:
    for key, value in cards("calm", tmp_path).items():
        if isinstance(value, Released):
            text = value.report(tmp_path / f"{key}.html").read_text()
            assert text.startswith("<!doctype html>"), key
    measured = Released(FOUND, PROMISE).report(tmp_path / "e.html").read_text()
    assert "How good is the predictor?" in measured
    stumps = pp.Stumps({"age": pp.Integers(0, 3), "dose": pp.Integers(0, 3)})
    told = {"class": "Stumps", "size": stumps.size}
    assert (
        "How many people rules of this kind need"
        in Released(stumps.decode(5), PROMISE, told).report(tmp_path / "s.html").read_text()
    ), "the class is rebuilt from what is public"
    with pytest.raises(ParameterError, match="choose a writable place"):
        Released(17, PROMISE).report(tmp_path / "nowhere" / "r.html")


def test_a_plan_is_a_frame() -> None:
    frame = planned().to_frame(predict=False)
    assert frame.columns == ["method", "kind", "records_per_user", "users", "assumption"]
    assert frame.height == 2 * len(planned().rows)
    hybrid = frame.filter(method="hybrid selection", kind="certified")
    assert hybrid["users"].to_list() == list(planned().row("hybrid selection").values)
    least = pp.plan(pp.Thresholds(AGE), epsilon=1, n_users=5000, records_per_user=4).to_frame(predict=False)
    assert least["alpha"].dtype.is_float()
    hopeless = pp.plan(pp.Thresholds(AGE), epsilon="1/100", n_users=3, records_per_user=1, setting="agnostic")
    assert None in hopeless.to_frame(predict=False)["alpha"].to_list()
    assert "<td class='n'>–</td>" in evolve(hopeless, asked=None)._repr_html_()
