"""Exchanges claims with other catalogs, as documents of Ossie, OKF and ODCS, and as labels."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from nimblepy.errors import InvalidArgumentError
from nimblepy.table.claims.check import check_all
from nimblepy.table.claims.described import Described, described
from nimblepy.table.claims.export import to_labels, to_odcs, to_okf
from nimblepy.table.claims.kinds import Claim
from nimblepy.table.claims.ossie import to_ossie
from nimblepy.table.describe import CatalogLake, Description, Tables, describe_claims
from nimblepy.table.evolve import Alter
from nimblepy.table.handle import TableState

FORMATS = ("okf", "ossie", "odcs", "labels")


def export_claims(catalog: Tables, names: Sequence[str], form: str, folder: str) -> list[str]:
    """Writes the claims about the named tables into a directory, and returns the paths.

    Args:
        form: ``"ossie"``: one document. ``"okf"``, ``"odcs"``, ``"labels"``: a file per table.

    Raises:
        InvalidArgumentError: ``form`` has another value.
    """
    if form not in FORMATS:
        raise InvalidArgumentError(f"export: expected one of {', '.join(FORMATS)}, got {form!r}")
    lake = CatalogLake(catalog)
    tables = []
    for name in names:
        subject = lake.subject(name)
        if subject is not None:
            tables.append(described(subject, check_all(subject, lake), lake))
    os.makedirs(folder, exist_ok=True)
    if form == "ossie":
        texts = {"ossie.json": _json(to_ossie(tables, "lake"))}
    else:
        texts = dict(_file(table, form) for table in tables)
    paths = []
    for name, text in texts.items():
        paths.append(os.path.join(folder, name))
        with open(paths[-1], "w", encoding="utf-8") as sink:
            sink.write(text)
    return paths


def _file(table: Described, form: str) -> tuple[str, str]:
    """Returns the name and the text of the file that describes a table."""
    if form == "okf":
        return f"{table.name}.md", to_okf(table)
    document = to_odcs(table) if form == "odcs" else to_labels(table)
    suffix = "odcs.json" if form == "odcs" else "labels.json"
    return f"{table.name}.{suffix}", _json(document)


def _json(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def import_claims(
    catalog: Tables,
    claims: Mapping[str, Sequence[Claim]],
    names: Collection[str],
    allow_contradicted: bool,
) -> dict[str, Description]:
    """Stores claims, in one commit per table.

    Claims about tables that are not in ``names`` are ignored.

    Raises:
        InvalidArgumentError: a claim does not fit or is contradicted. The claims of earlier tables
            in ``names`` are already stored.
    """
    done = {}
    for name, given in claims.items():
        if name in names and given:
            handle = catalog.table(name)
            alter = Alter(TableState(handle))
            done[name] = describe_claims(handle, alter, given, allow_contradicted)
    return done
