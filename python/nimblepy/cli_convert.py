"""The command ``nimble convert``."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

import nimblepy as nb
from nimblepy.cli_output import print_json
from nimblepy.types import parse_sort_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line asks for, as written there."""

    source: str
    target: Path
    cluster_by: str | None
    unique: bool
    presorted: bool
    hash_indexes: tuple[str, ...]
    sorted_indexes: tuple[str, ...]
    columns: str | None
    compression: str
    format: str | None
    overwrite: bool


def run(request: Request, *, as_json: bool) -> None:
    """Converts, with a progress bar on a terminal, and prints what was written."""
    if request.target.exists() and not request.overwrite:
        raise nb.InvalidArgumentError(f"{request.target} exists; pass --overwrite to replace it")
    indexes: list[nb.HashIndex | nb.SortedIndex] = [
        nb.HashIndex(_names(text)) for text in request.hash_indexes
    ]
    indexes += [nb.SortedIndex(parse_sort_keys(text)) for text in request.sorted_indexes]
    options = nb.WriteOptions(compression=request.compression)
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    quiet = not sys.stderr.isatty()
    console = Console(stderr=True)
    with Progress(*columns, TimeElapsedColumn(), console=console, disable=quiet) as bar:
        task = bar.add_task("rows", total=None)

        def report(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        summary = nb.convert(
            request.source,
            request.target,
            format=request.format,
            columns=_names(request.columns) if request.columns else None,
            cluster_by=parse_sort_keys(request.cluster_by) if request.cluster_by else None,
            unique=request.unique,
            presorted=request.presorted,
            indexes=indexes,
            options=options,
            progress=report,
        )
    if as_json:
        print_json({"file": str(request.target), **asdict(summary)})
    else:
        typer.echo(f"{request.target}: {summary}")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
