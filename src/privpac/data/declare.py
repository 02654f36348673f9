"""Domains written as text: the command line's way of declaring a feature.

================  ==============================
text              domain
================  ==============================
``x``             ``Floats()``
``x=0:1440``      ``Integers(0, 1440)``
``x=35:42:0.1``   ``Grid(35, 42, "0.1")``
``x={a,b,c}``     ``Categories(["a", "b", "c"])``
``x={a<b<c}``     ``Categories(["a", "b", "c"], ordered=True)``
``x=D:E``         ``Dates(D, E)``, for ISO dates
``x=["a, b"]``    the same for names that hold commas or braces: a list as in JSON or TOML
``x=number``      ``Floats()``, for a place where nothing would look forgotten
``x=text``        ``Texts()``, an open vocabulary
================  ==============================

After categories, ``,ordered=true`` says that the order of the list means something, as ``<`` does between plain names.
After any domain but the last, ``,missing=own`` (or ``drop``, ``raise``) says what missing values are.  A schema file
(:mod:`privpac.data.schema_file`) is written in the same words.
"""

from __future__ import annotations

import json
import re

from privpac.data.domains import Categories, Dates, Domain, Floats, Grid, Integers, Missing, Texts
from privpac.errors import ParameterError

__all__ = ["categories_text", "domain_text", "parse_domain", "parse_feature"]

_FORMS = "lo:hi (whole numbers or dates), lo:hi:step, {a,b,c}, {a<b<c} (ordered), number or text"
_MISSING = ",missing="
_ORDERED = ",ordered="
_WHOLE = re.compile(r"[+-]?\d{1,40}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def parse_domain(declared: str) -> Domain:
    """Read ``lo:hi``, ``lo:hi:step``, ``{a,b,c}``, ``{a<b<c}``, ``text``; an empty text is ``Floats()``.

    >>> parse_domain("40:400"), parse_domain("0:1:0.25").size, parse_domain("{no,yes}").value(1)
    (Integers(lo=40, hi=400), 5, 'yes')
    """
    if not isinstance(declared, str):
        raise TypeError(f"a domain is declared as text, got {type(declared).__name__}")
    body, comma, missing = declared.strip().rpartition(_MISSING)
    if comma and missing.strip().isalpha():
        return Missing(parse_domain(body), missing.strip())  # type: ignore[arg-type]
    body = declared.strip()
    if body in ("", "number"):
        return Floats()
    if body == "text":
        return Texts()
    listed, comma, said = body.rpartition(_ORDERED)
    if comma and listed.rstrip().endswith(("]", "}")):
        if said.strip() not in ("true", "false"):
            raise ParameterError(f"ordered must be true or false, got {said[:60]!r}")
        names = parse_domain(listed)
        if not isinstance(names, Categories):
            raise ParameterError(f"ordered goes with a list of categories, got {declared[:60]!r}")
        return Categories(names.values, ordered=said.strip() == "true")
    if body.startswith("{") and body.endswith("}"):
        return _names(body[1:-1])
    if body.startswith("["):
        return Categories(_listed(body))
    ends = [end.strip() for end in body.split(":")]
    if len(ends) == 3 and all(ends):
        return Grid(ends[0], ends[1], ends[2])
    if len(ends) == 2 and all(_WHOLE.fullmatch(end) for end in ends):
        return Integers(int(ends[0]), int(ends[1]))
    if len(ends) == 2 and all(_DATE.fullmatch(end) for end in ends):
        return Dates(ends[0], ends[1])
    raise ParameterError(f"a domain must be {_FORMS}; got {declared!r}")


def _names(inside: str) -> Categories:
    """``a,b,c``, or ``a<b<c`` where their order means something; a name may begin with ``<``, as in ``<50,>=50``."""
    ordered = "<" in inside and "," not in inside
    names = [name.strip() for name in inside.split("<" if ordered else ",")]
    if not all(names):
        raise ParameterError(
            f"a category in {{{inside[:60]}}} is empty; write {{a,b,c}}, or {{a<b<c}} where the order means something"
        )
    if not ordered and any("<" in name[1:] for name in names):
        raise ParameterError(
            f"{{{inside[:60]}}} has both commas and <; write {{a,b,c}}, or {{a<b<c}} where the order means something, "
            'or a list such as ["a<b", "c"]'
        )
    return Categories(names, ordered=ordered)


def _listed(body: str) -> list[str | int | bool]:
    """Categories written as a list."""
    try:
        names = json.loads(body)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, (str, int)) for name in names):
        raise ParameterError(f'a list of categories is written ["a, b", "c"], got {body[:60]!r}')
    return names


def parse_feature(declared: str) -> tuple[str, Domain]:
    """Read ``name`` or ``name=domain``.

    >>> parse_feature("glucose=40:400")
    ('glucose', Integers(lo=40, hi=400))
    >>> parse_feature("age=0:120,missing=own")[1].text(121)
    'missing'
    """
    if not isinstance(declared, str):
        raise TypeError(f"a feature is declared as text, got {type(declared).__name__}")
    name, equals, domain = declared.partition("=")
    if not name.strip() or (equals and not domain.strip()):
        raise ParameterError(f"a feature must be name or name=domain with domain {_FORMS}; got {declared!r}")
    return name.strip(), parse_domain(domain)


def domain_text(domain: Domain | None) -> str:
    """What follows a feature's name: the inverse of :func:`parse_feature`.

    >>> [domain_text(parse_feature(text)[1]) for text in ("x", "x=0:9", "x=0:1:0.25", "x={a,b}",
    ...     "x=2024-01-01:2024-12-31", "x=text")]
    ['', '=0:9', '=0:1:1/4', '={a,b}', '=2024-01-01:2024-12-31', '=text']
    """
    if isinstance(domain, Missing):
        return (domain_text(domain.inner) or "=") + _MISSING + domain.rule
    if isinstance(domain, Grid):
        return f"={domain.lo}:{domain.hi}:{domain.step}"
    if isinstance(domain, (Integers, Dates)):
        return f"={domain.lo}:{domain.hi}"
    if isinstance(domain, Categories):
        return "=" + categories_text(domain)
    if isinstance(domain, Texts):
        return "=text"
    if isinstance(domain, Floats):
        return ""
    raise ParameterError(f"{type(domain).__name__} is not written on the command line; a domain must be {_FORMS}")


def categories_text(domain: Categories) -> str:
    """``{a,b,c}`` or ``{a<b<c}``, or a list where a name would be read as something else.

    >>> categories_text(Categories(["a", "b"])), categories_text(Categories(["a, b", "c"]))
    ('{a,b}', '["a, b", "c"]')
    >>> [categories_text(Categories(names, ordered=True)) for names in (["low", "high"], ["<5", ">=5"])]
    ['{low<high}', '["<5", ">=5"],ordered=true']
    """
    names = [name if isinstance(name, bool) else str(name) for name in domain.values]
    # Alone, or in an order, a name with a sign of order would be read as several.
    alone = domain.ordered or len(names) == 1
    plain = (len(names) > 1 or not domain.ordered) and all(
        isinstance(name, str)
        and name
        and name == name.strip()
        and not set(name) & set(",{}")
        and "<" not in name[0 if alone else 1 :]
        for name in names
    )
    if plain:
        return "{" + ("<" if domain.ordered else ",").join(map(str, names)) + "}"
    return json.dumps(list(domain.values), ensure_ascii=False) + (_ORDERED + "true") * domain.ordered
