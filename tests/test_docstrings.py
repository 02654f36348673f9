"""Docstrings: no formula or table was re-wrapped into running text, and what is public says how it is called."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

SOURCE = Path(__file__).parent.parent / "src" / "privpac"
OPERATORS = "=+<>≤≥≈≠·×∗→∑∏/^|"

#: Help pages of commands: the terminal prints them as they stand (``\b`` keeps their lines apart).
PREFORMATTED = ("cli/",)


def docstrings(root: Path = SOURCE) -> Iterator[tuple[str, str]]:
    """Where each docstring of the package stands, and its text without the common indent."""
    for file in sorted(root.rglob("*.py")):
        name = file.relative_to(root).as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield f"{name}:{getattr(node, 'name', 'module')}", text


def paragraphs(text: str) -> Iterator[tuple[list[str], str]]:
    """Runs of lines at the margin, without examples, each with the line that follows it (after blank ones)."""
    lines = text.splitlines()
    block: list[str] = []
    example = False
    for i, line in enumerate([*lines, ""]):
        example = bool(line.strip()) and (example or line.startswith(">>>"))
        inside = block and is_rule(block[0])  # a cell of a table may be empty, so that its row begins with spaces
        if line.strip() and (inside or not line.startswith(" ")) and not example:
            block.append(line)
        elif block:
            yield block, next((rest for rest in lines[i:] if rest.strip()), "")
            block = []


def is_rule(line: str) -> bool:
    """A line that only rules a table or underlines a heading."""
    return bool(re.fullmatch(r"\s*(={2,}|-{2,})(\s+(={2,}|-{2,}))*\s*", line))


def bare(block: list[str]) -> list[str]:
    """The lines of a paragraph with a letter for each literal, also one that runs over a line's end."""
    literals = re.compile(r"``.*?``|`[^`\n]*`", re.DOTALL)
    return literals.sub(lambda literal: "x" + "\nx" * literal[0].count("\n"), "\n".join(block)).split("\n")


def stumps(text: str) -> list[str]:
    """What looks like a displayed formula or a table that runs as text, a sentence for each."""
    problems: list[str] = []
    for block, after in paragraphs(text):
        if is_rule(block[0]) and is_rule(block[-1]):
            problems += ruled_table(block)
        elif block[0].startswith("|"):
            problems += piped_table(block)
        else:
            problems += running_text(block, after)
    return problems + filled_formulas(text)


def filled_formulas(text: str) -> list[str]:
    """Lines of a displayed formula that end where the page ends: inside a bracket, or with an operator."""
    problems = []
    intro = False
    for line in text.splitlines():
        if line.strip() and not line.startswith(" "):
            intro = line.endswith(":")
        elif intro and len(line) > 95 and not line.lstrip().startswith((">>>", "...")):
            open_brackets = sum(line.count(c) for c in "([{") > sum(line.count(c) for c in ")]}")
            if open_brackets or line[-1] in OPERATORS + "~":
                problems.append(f"a displayed formula filled to the width of the page: {line.strip()!r}")
    return problems


def ruled_table(block: list[str]) -> list[str]:
    """A table between rules: every rule has the same columns, and no cell runs through the gap between two of them."""
    rules = [line for line in block if is_rule(line)]
    gaps = [i for i in range(len(rules[0])) if rules[0][i] == " "]
    wrong = [line for line in rules if line != rules[0]]
    wrong += [line for line in block if not is_rule(line) and any(line[i : i + 1].strip() for i in gaps)]
    return [f"a table whose columns do not stand below each other: {line!r}" for line in wrong]


def piped_table(block: list[str]) -> list[str]:
    """A table with bars: a heading, a rule, and as many bars in every row."""
    if len(block) < 3 or not re.fullmatch(r"\|(:?-+:?\|)+", block[1]):
        return [f"a table without a rule below its heading: {block[0]!r}"]
    rows = [line.count("|") for line in bare(block)]
    return [f"{rows[0]} and {n} bars in one table: {line!r}" for n, line in zip(rows, block) if n != rows[0]]


def running_text(block: list[str], after: str) -> list[str]:
    problems = []
    lines = bare(block)
    for i, line in enumerate(lines):
        words, where = line.strip(), repr(block[i].strip())
        if i == 1 and is_rule(line):
            continue  # the line below a heading
        if re.search(r"\S {3,}\S", words):
            problems.append(f"several spaces inside a paragraph: {where}")
        if re.search(r"={4,}|-{4,}|-\|-", words):
            problems.append(f"a rule inside a paragraph: {where}")
        first, last = words[:1], words[-1:]
        if (first in OPERATORS and words[1:2] in ("", " ")) or (last in OPERATORS and words[-2:-1] in ("", " ")):
            problems.append(f"a line that begins or ends with an operator: {where}")
        if words.count("|") >= 2 and re.search(r"\w\s+\|\s+\w.*\|", words):
            problems.append(f"a row of a table inside a paragraph: {where}")
        if words.endswith("::"):
            if i + 1 < len(lines):
                problems.append(f"two colons without a block: {where}")
            elif not after.startswith(" "):
                problems.append(f"two colons without an indented block: {where}")
    return problems


def test_no_formula_or_table_runs_as_text() -> None:
    problems = [
        f"{place}: {problem}"
        for place, text in docstrings()
        if not place.startswith(PREFORMATTED)
        for problem in stumps(text)
    ]
    assert not problems, "\n".join(problems)


RULED = """What it is.

=====  ========
name   meaning
=====  ========
a      one
b      two
=====  ========
"""

PIPED = """What it is.

| name | meaning |
|---|---|
| a | ``x|y`` |
| b | two |
"""

DISPLAYED = """What it is::

    n  >=  ln(k) / epsilon
        +  1

and what it costs.
"""


FORMULA = """The law is:

    P(clip, h) ~ exp(-theta C(h) / levels)          theta = epsilon (add-remove) or epsilon / 2 (replace)
    P(mean, h) ~ exp(-theta A(h) / levels)          A = M + min(D, K) + B, and so on for every rule of the class
    K = floor(4 bits levels / theta)                B = floor(bits levels / theta)
"""


@pytest.mark.parametrize(
    "text", [RULED, PIPED, DISPLAYED, FORMULA, ">>> a = (1 +\n...      2)", "Sizes ``a +\nb`` and ``c``."]
)
def test_what_is_displayed_is_left_alone(text: str) -> None:
    assert stumps(text) == []


@pytest.mark.parametrize("width", [40, 60, 80, 118])
@pytest.mark.parametrize("text", [RULED, PIPED, DISPLAYED])
def test_what_was_rewrapped_is_found(text: str, width: int) -> None:
    """The mutation that once happened: every paragraph filled to a width."""
    filled = "\n\n".join(textwrap.fill(textwrap.dedent(part), width) for part in text.split("\n\n"))
    assert stumps(filled)


def test_a_formula_filled_inside_its_block_is_found() -> None:
    head, formula = FORMULA.split("\n\n")
    filled = textwrap.fill(formula.strip().replace("\n   ", ""), 116, initial_indent="    ", subsequent_indent="    ")
    assert stumps(f"{head}\n\n{filled}\n")


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (RULED, ("a      one", "a long one")),
        (RULED, ("=====  ========\na", "==== ========\na")),
        (PIPED, ("| b | two |", "| b | two | three |")),
        (DISPLAYED, ("    n", "n")),
        ("The sum is a + b, at most c.", ("+ b", "+\nb")),
        ("The sum is a + b, at most c.", ("+ b", "\n+ b")),
        ("The sum is a = b, at most c.", ("a =", "a    =")),
        ("Two parts, a and b.", ("parts,", "parts ----")),
    ],
)
def test_one_change_of_a_display_is_found(text: str, change: tuple[str, str]) -> None:
    assert stumps(text) == []
    assert change[0] in text
    assert stumps(text.replace(*change))


# What is public says how it is called

#: Made by constructors with names of their own, by ``learn`` or by subclasses: nobody calls the class itself.
NOT_CALLED = ("Law", "Released", "UserData", "VC1Tree")
#: Heads of sections, as numpydoc has them.
SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Notes", "Examples", "See Also")


def public() -> dict[str, object]:
    """The functions and classes that ``privpac`` and ``privpac.sklearn`` export."""
    import privpac
    from privpac import sklearn

    names = {name: getattr(package, name) for package in (privpac, sklearn) for name in package.__all__}
    return {name: value for name, value in names.items() if inspect.isclass(value) or inspect.isfunction(value)}


def sections(text: str) -> dict[str, list[str]]:
    """The lines of a docstring by section; what comes first stands below ``""``."""
    parts: dict[str, list[str]] = {"": []}
    name = ""
    for line in inspect.cleandoc(text).splitlines():
        if re.fullmatch(r"-{3,}", line) and parts[name] and parts[name][-1] in SECTIONS:
            name = parts[name].pop()
            parts[name] = []
        else:
            parts[name].append(line)
    return parts


def described(text: str) -> set[str]:
    """The names that head the entries of the parameters."""
    heads = [line for line in sections(text).get("Parameters", []) if line and not line.startswith(" ")]
    return {name.strip().lstrip("*") for head in heads for name in head.split(" :")[0].split(",")}


def of_parts(text: str) -> set[str]:
    """The parameters of the parts of a class: "Given by its own parameters: ``width``, ``crowd``."."""
    entries = " ".join(sections(text).get("Parameters", []))
    return {
        name
        for given in re.findall(r"iven by its own parameters([^.]*)", entries)
        for name in re.findall(r"``(\w+)``", given)
    }


def parameters(value: Callable[..., object]) -> list[str]:
    return [name for name in inspect.signature(value).parameters if name not in ("self", "cls")]


def complaints(name: str, value: object) -> list[str]:
    """What the docstring of a function or class that people call does not say."""
    assert callable(value)
    text = value.__doc__ or ""
    parts = sections(text)
    problems = [] if summary(text) else ["no summary sentence"]
    if name in NOT_CALLED:
        return problems + ([] if "Examples" in parts or name == "VC1Tree" else ["no Examples"])
    known = parameters(value)
    said = described(text) | of_parts(text)
    own = set(known)
    if inspect.isclass(value):
        own |= {field.name for field in attrs.fields(value)} if attrs.has(value) else set()
        for base in value.__mro__[1:]:  # a learner's shared parameters are described where they are declared
            said |= described(base.__doc__ or "") | of_parts(base.__doc__ or "")
            own |= described(base.__doc__ or "")
    problems += [f"parameter {one} is not described" for one in known if one not in said]
    problems += [f"there is no parameter {one}" for one in sorted(described(text)) if one not in own]
    if (
        inspect.isfunction(value)
        and value.__annotations__.get("return") not in (None, "None")
        and "Returns" not in parts
    ):
        problems.append("no Returns")
    return problems + [f"no {part}" for part in ("Raises", "Examples") if part not in parts]


def summary(text: str) -> bool:
    """Whether a docstring begins with a sentence."""
    first = "\n".join(sections(text)[""]).strip().split("\n\n")[0]
    return bool(re.search(r"[.?:](\s|$)", first))


def methods(value: type) -> Iterator[tuple[str, Callable[..., object]]]:
    for name, entry in vars(value).items():
        function = getattr(entry, "__func__", entry)
        if not name.startswith("_") and inspect.isfunction(function) and function.__module__.startswith("privpac"):
            yield name, function


@pytest.mark.parametrize("name", sorted(public()))
def test_what_people_call_says_how(name: str) -> None:
    assert complaints(name, public()[name]) == []


@pytest.mark.parametrize("name", sorted(name for name, value in public().items() if inspect.isclass(value)))
def test_public_methods_say_what_they_do(name: str) -> None:
    """A sentence for each, its own or the one of the class that declares it; parameters that it describes exist."""
    value = public()[name]
    assert isinstance(value, type)
    problems = []
    for method, function in methods(value):
        text = inspect.getdoc(getattr(value, method)) or ""
        if not summary(text):
            problems.append(f"{method}: no summary sentence")
        known = parameters(function)
        problems += [f"{method}: there is no parameter {one}" for one in sorted(described(text)) if one not in known]
        if function.__doc__ and "Parameters" in sections(text):
            problems += [f"{method}: parameter {one} is not described" for one in known if one not in described(text)]
    assert problems == []


def described_call(data: object, epsilon: int = 1) -> int:
    """Count.

    Parameters
    ----------
    data : table
        Private.
    epsilon : number
        Budget.

    Returns
    -------
    int

    Raises
    ------
    ParameterError
        Never.

    Examples
    --------
    >>> described_call([], 2)
    2
    """
    return epsilon


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("", ""), None),
        (("Count.", ""), "no summary sentence"),
        (("data : table", "table : table"), "parameter data is not described"),
        (("data : table", "table : table"), "there is no parameter table"),
        (("epsilon : number", "epsilon, delta : number"), "there is no parameter delta"),
        (("Returns\n    -------", "What comes back:"), "no Returns"),
        (("Raises\n    ------\n", "Raises: "), "no Raises"),
        (("Examples\n    --------\n", ""), "no Examples"),
    ],
)
def test_one_change_of_a_description_is_found(change: tuple[str, str], problem: str | None) -> None:
    def changed(data: object, epsilon: int = 1) -> int:
        return epsilon

    changed.__doc__ = (described_call.__doc__ or "").replace(*change)
    problems = complaints("changed", changed)
    assert problem in problems if problem else problems == []
