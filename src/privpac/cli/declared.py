"""What a command is told about its table: options, and the schema file that says what they leave out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from privpac.cli.options import TABLE, features_of, label_map_of
from privpac.data import Domain, parse_feature
from privpac.data.schema_file import BY_SCHEMA, Schema, declared_with, read_schema
from privpac.data.spec import TableSpec
from privpac.errors import ParameterError

_HELP = "A schema file (made with: privpac domains) that says whatever the options leave out."
SchemaFile = Annotated[Path | None, typer.Option("--schema", help=_HELP, show_default=False)]
FurtherSchema = Annotated[Path | None, typer.Option("--schema", help=_HELP, show_default=False, rich_help_panel=TABLE)]
_UNLABELLED = "label is missing: name the column to predict with --label, or in a --schema file"


def spec_of(
    schema: Path | None,
    *,
    user: str | None,
    feature: list[str] | Mapping[str, Domain | None] | None,
    label: str | None = None,
    labelled: bool = False,
    optional_label: bool = False,
    on_invalid: str | None = None,
    on_invalid_label: str | None = None,
    label_map: list[str] | None = None,
    positive: str | None = None,
    classes: str | None = None,
) -> TableSpec:
    """Everything public about the table; refused here, before the table is touched.

    ``feature`` holds the texts of ``--feature``, or columns that something else knows the domains of; ``labelled``
    whether a label is read, which must be named unless it is optional.
    """
    declared = None if schema is None else read_schema(schema)
    named = None if classes is None else [name.strip() for name in classes.split(",")]
    own = isinstance(feature, Mapping)
    features = feature if isinstance(feature, Mapping) else schema_features(declared, feature or [])
    if declared is not None and not labelled:  # what cannot be used need not be finished
        declared = Schema(
            declared.columns, user=declared.user, on_invalid=declared.on_invalid, missing=declared.missing
        )
    options: dict[str, Any] = {"label": label, "on_invalid": on_invalid, "positive": positive, "classes": named}
    options |= {"on_invalid_label": on_invalid_label}
    options |= {"user": (None if declared is None else BY_SCHEMA) if user is None else user, "features": features}
    if labelled and not optional_label and label is None and (declared is None or declared.label is None):
        raise ParameterError(_UNLABELLED)
    if declared is not None:
        declared.check(f"the schema {str(schema)!r}")
    return declared_with(declared, label_map=label_map_of(label_map), own_columns=own, **options)


def schema_features(schema: Schema | None, texts: list[str]) -> dict[str, Domain | None] | None:
    """Parsed ``--feature`` options; with a schema a name alone has its domain there, and no name means all of them."""
    if schema is None:
        return dict(features_of(texts))
    if not texts:
        return None
    features = {name: domain if "=" in text else None for text in texts for name, domain in [parse_feature(text)]}
    if len(features) < len(texts):
        raise ParameterError("a feature is named twice")
    return features
