"""What the service takes and gives, as types; a query is turned into codes here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, FailFast, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from privpac.data import Domain
from privpac.errors import SchemaError
from privpac.methods.prediction.session import PredictionSession
from privpac.serve.keys import Role
from privpac.serve.session_file import rule_name

MAX_BATCH = 1000
"""Queries in one request."""

_ENDS = {"low": "lo", "high": "hi", "step": "step"}
_MAX_CHOICES = 200

Scalar = StrictBool | StrictInt | StrictFloat | Annotated[StrictStr, Field(max_length=200)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


# In


class Queries(_Strict):
    """Records to label: each an object with one value for every feature."""

    records: Annotated[
        list[Annotated[dict[str, Scalar], Field(max_length=256)]],
        Field(min_length=1, max_length=MAX_BATCH),
        FailFast(),  # nobody is told what is wrong with which record
    ]


class NewKey(_Strict):
    """A key to make; ``share`` is the most new answers it may get."""

    name: Annotated[str, Field(min_length=1, max_length=60)]
    role: Role = Role.ANALYST
    share: Annotated[StrictInt, Field(ge=0, le=1 << 40)] | None = None


# Out


class Problem(BaseModel):
    """Every error: one of a few fixed bodies."""

    error: str
    detail: str


class Exhausted(Problem):
    """The budget, or the share of this key, does not reach."""

    remaining: int


class Answers(BaseModel):
    """One 0 or 1 for each record; 1 means ``label``."""

    answers: list[int]
    label: str


class Budget(BaseModel):
    """New answers: of the session, and of the key that asks."""

    queries: int
    used: int
    remaining: int
    key: str
    role: Role
    share: int | None
    key_used: int
    key_remaining: int


class Feature(BaseModel):
    """One column of a query: the declared domain in words, and what a form needs of it."""

    name: str
    domain: str
    kind: str
    low: str | None = None
    high: str | None = None
    step: str | None = None
    choices: list[str] | None = None


class Promise(BaseModel):
    """The guarantee of all answers together, rationals as text, and the public schema."""

    summary: str
    epsilon: str
    delta: str
    unit: str
    neighbours: str
    model: str
    explanation: str
    strength: str
    queries: int
    rule: str
    label: str
    features: list[Feature]
    parameters: dict[str, str]


class Health(BaseModel):
    status: str


class Span(BaseModel):
    """Answers counted within one span of time, named by its start (UTC)."""

    start: str
    answers: int


class History(BaseModel):
    """The budget over time; ``step`` is the length of a span: minute, hour or day."""

    queries: int
    step: str
    answers: list[Span]


class KeyInfo(BaseModel):
    """A key without its secret."""

    id: str
    name: str
    role: Role
    share: int | None
    created: str
    revoked: str | None
    used: int


class KeyList(BaseModel):
    keys: list[KeyInfo]


class NewKeyMade(KeyInfo):
    """A key with its secret, shown once."""

    token: str


def promise(session: PredictionSession) -> Promise:
    """What is public about a session."""
    guarantee = session.guarantee
    assert guarantee is not None
    return Promise(
        summary=guarantee.summary,
        epsilon=str(guarantee.epsilon),
        delta=str(guarantee.delta),
        unit=str(guarantee.unit),
        neighbours=str(guarantee.neighbours),
        model=str(guarantee.model),
        explanation=guarantee.explain(),
        strength=guarantee.strength.value,
        queries=session.queries,
        rule=rule_name(session.concept),
        label=session.label,
        features=[_feature(name, domain) for name, domain in session.features.items()],
        parameters={name: str(value) for name, value in session.parameters.items()},
    )


def _feature(name: str, domain: Domain) -> Feature:
    declared = domain.to_dict()
    ends = {field: None if declared.get(key) is None else str(declared[key]) for field, key in _ENDS.items()}
    listed = declared.get("values")
    choices = (
        None
        if listed is None or len(listed) > _MAX_CHOICES
        else [json.dumps(v) if isinstance(v, bool) else str(v) for v in listed]
    )
    return Feature(name=name, domain=domain.describe(), kind=str(declared["kind"]), choices=choices, **ends)


# From records to codes


def columns(session: PredictionSession, records: Sequence[dict[str, Any]]) -> dict[str, NDArray[np.uint64]]:
    """The records of a request as codes; raises for anything but one readable value per feature."""
    features = session.features
    if any(record.keys() != features.keys() for record in records):
        raise SchemaError("every record needs a value for every feature, and nothing else")
    return {name: domain.encode_few([record[name] for record in records], name) for name, domain in features.items()}
