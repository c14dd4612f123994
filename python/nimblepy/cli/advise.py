"""The command that advises which indexes to add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

import nimblepy as nb
from nimblepy.advise.workload import read_log
from nimblepy.cli.arguments import Version
from nimblepy.cli.output import print_json, split_names
from nimblepy.cli.sources import open_rows
from nimblepy.schema.types import format_bytes


def run_advise(
    path: str,
    version: Version,
    filters: Sequence[str],
    params: Mapping[str, str] | None,
    lookups: Sequence[str],
    log: str | None,
    columns: str | None,
    *,
    as_json: bool,
) -> None:
    """Advises on indexes for filters, lookups and a log."""
    if not filters and not lookups and log is None:
        raise nb.InvalidArgumentError("no queries: pass --filter, --on or --log")
    names = None if columns is None else split_names(columns)
    workload: list[Any] = [
        {"filter": text, "params": _used(text, params), "columns": names} for text in filters
    ]
    workload += [{"on": split_names(text), "columns": names} for text in lookups]
    if log is not None:
        workload += read_log(log)
    with open_rows(path, version) as rows:
        advice = nb.advise_indexes(rows, workload)
    if as_json:
        print_json([{k: v for k, v in asdict(item).items() if k != "index"} for item in advice])
    else:
        Console().print(_table(advice))


def _used(text: str, params: Mapping[str, str] | None) -> dict[str, str] | None:
    """Returns the parameters that one filter uses."""
    used = {name: value for name, value in (params or {}).items() if f"${name}" in text}
    return used or None


def _table(advice: Sequence[nb.IndexAdvice]) -> Table:
    table = Table(header_style="bold")
    table.add_column("do")
    table.add_column("index")
    for heading in ("size", "questions", "reads", "bytes"):
        table.add_column(heading, justify="right")
    table.add_column("why")
    for item in advice:
        cells = (
            "-" if item.action == "none" else item.action,
            f"{item.kind} ({', '.join(item.columns)})".strip(),
            format_bytes(item.size_bytes) if item.size_bytes else "",
            f"{item.times:,}",
            _change(f"{item.reads_before:,.0f}", f"{item.reads_after:,.0f}"),
            _change(format_bytes(round(item.bytes_before)), format_bytes(round(item.bytes_after))),
            item.why,
        )
        # Text, not str: rich would read [brackets] in names as markup.
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"
