"""Plain English in README and docs: short sentences, and the words of the field.

A page is read as prose: blocks of code, printed outputs, tables, headings and pictures are left out.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
LONGEST = 30  # words

# Words that nobody outside knows, as regular expressions, and what to write instead.
WORDS = {
    r"two voices|\bvoices?\b|TwoVoices": "hybrid selection; clipped score, mean score",
    r"\bluck\b": "optimism",
    r"\bhandicaps?\b": "penalty",
    r"points? cards?|PointsCard|CardLearner": "scorecard",
    r"\.hypothesis\b": ".value or .rule",
    r"least_error": "best_error",
    r"people like these|error\.like": "new people from the same population",
    r"these people|error\.these": "the people measured",
    r"leaves alone": "specificity",
    r"right when it says yes": "precision",
    r"gain over a constant": "better than always saying no by",
    r"(?-i:\bWAYS\b)|`way=": "strategy",
    r"\bQuestions\b(?=`)": "Binarized",
    r"\bstorm\b": "chaos suite",
    r"thought 1 in 2|1 in 2 may": "someone who was 50 % sure",
    r"its door|\bdoors?\b": "entry point",
    r"the house\b": "the package, or where the data are held",
    r"\bshel(?:f|ves)\b": "public API",
    r"\bhushed\b": "nothing: a try in release",
    r"docs/words\.md|\bwords\.md": "glossary.md",
}
# Ordinary uses that are right: page, phrase, reason.
RIGHT = [
    ("planning-measured.md", "these people's best cut", "the frequent people of the sentence before"),
]
# What programs used to print, looked for everywhere but in Python.
PRINTED = (
    r"in words: someone",
    r"hence \(\d[^)]*\)-DP per user, replace",
    r"gain over a constant",
    r"· finds \d",
)

END = re.compile(r"[.!?][*_)\"”]*\s+|[:;][*_]*\s+(?=[\"“(A-Z0-9*])")  # ends of sentences, and of what could be one
START = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*]|\d+\.)\s)")  # starts of paragraphs and of items of lists
LEFT_OUT = (
    re.compile(r"\A---\n.*?^---\n", re.MULTILINE | re.DOTALL),  # front matter
    re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL),  # code
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"^[ \t]*(?:\||#|!\[|!!!|\?\?\?|--8|:::|<|\{).*$", re.MULTILINE),  # tables, headings, pictures, markup
    re.compile(r"(?<=\n\n)(?: {4}(?! *(?:[-*]|\d+\.) ).*\n)+"),  # indented: printed outputs
)


def prose(page: str) -> str:
    for pattern in LEFT_OUT:
        page = pattern.sub("\n", page)
    return page


def sentences(page: str) -> list[str]:
    """The sentences of a page; a span of code is one word, a link its text."""
    text = re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "code", prose(page), flags=re.DOTALL)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    cuts = sorted({0, len(text), *(m.end() for pattern in (END, START) for m in pattern.finditer(text))})
    found = (" ".join(text[a:b].split()) for a, b in pairwise(cuts))
    return [sentence for sentence in found if sentence]


def words(sentence: str) -> int:
    return sum(bool(re.search(r"\w", part)) for part in sentence.split())


def pages() -> list[object]:
    return [pytest.param(page, id=page.name) for page in PAGES]


@pytest.mark.parametrize("page", pages())
def test_sentences_are_short(page: Path) -> None:
    long = [sentence for sentence in sentences(page.read_text(encoding="utf-8")) if words(sentence) > LONGEST]
    assert not long, "\n".join([f"{len(long)} sentences of more than {LONGEST} words", *long])


@pytest.mark.parametrize("page", pages())
def test_words_are_those_of_the_field(page: Path) -> None:
    text = prose(page.read_text(encoding="utf-8"))
    for name, phrase, _ in RIGHT:
        if name == page.name:
            assert phrase in text, "an exception that is no longer needed"
            text = text.replace(phrase, "")
    text = " ".join(text.split())
    found = [
        f"“{match[0]}” in “…{text[max(0, match.start() - 40) : match.end() + 40]}…”: write {instead}"
        for pattern, instead in WORDS.items()
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", pages())
def test_printed_results_are_those_of_today(page: Path) -> None:
    text = re.sub(r"^```python\n.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = [match[0] for pattern in PRINTED for match in re.finditer(pattern, text)]
    assert not found


def test_the_splitter_and_the_words_can_fail() -> None:
    long = " ".join(["word"] * (LONGEST + 1)) + "."
    assert [words(s) for s in sentences(f"# A heading\n\n{long} Short.\n\n- an item\n- {long}\n")] == [31, 1, 2, 31]
    assert sentences(f"```\n{long}\n```\n\n| {long} |\n\n    {long}\n") == []
    assert sentences("It costs `a b c`. See [a page](x.md): Yes.") == ["It costs code.", "See a page:", "Yes."]
    assert all(re.search(pattern, "x") is None for pattern in WORDS)
    for word in ("two voices", "points card", "luck", "its door", "the house", "people like these"):
        assert any(re.search(pattern, word, re.IGNORECASE) for pattern in WORDS), word
