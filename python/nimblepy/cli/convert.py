"""The commands that write: ``nimble convert``, ``add-index`` and ``drop-index``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import typer

import nimblepy as nb
from nimblepy.cli.output import print_json
from nimblepy.io.location import locate
from nimblepy.schema.types import format_bytes, parse_sort_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line asks for, as written there."""

    source: str
    target: str
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
    if not request.overwrite and locate(request.target, None).exists():
        raise nb.InvalidArgumentError(f"{request.target} exists; pass --overwrite to replace it")
    indexes = _indexes(request.hash_indexes, request.sorted_indexes)
    options = nb.WriteOptions(
        compression=request.compression  # type: ignore[arg-type]  # checked where it is used
    )
    summary = nb.convert(
        request.source,
        request.target,
        format=request.format,  # type: ignore[arg-type]  # checked where it is used
        columns=_names(request.columns) if request.columns else None,
        cluster_by=parse_sort_keys(request.cluster_by) if request.cluster_by else None,
        unique=request.unique,
        presorted=request.presorted,
        indexes=indexes,
        options=options,
        progress=sys.stderr.isatty(),
    )
    if as_json:
        print_json({"file": request.target, **asdict(summary)})
    else:
        typer.echo(f"{request.target}: {summary}")


def run_add_index(
    path: str,
    hash_indexes: Sequence[str],
    sorted_indexes: Sequence[str],
    output: str | None,
    *,
    as_json: bool,
) -> None:
    """Adds indexes, with a progress bar on a terminal, and prints what the file has then."""
    indexes = _indexes(hash_indexes, sorted_indexes)
    if not indexes:
        raise nb.InvalidArgumentError("nothing to add: pass --hash-index or --sorted-index")
    begin = time.perf_counter()
    found = nb.add_index(path, indexes, output=output, progress=sys.stderr.isatty())
    seconds = time.perf_counter() - begin
    _print_indexes(output or path, found, f"{len(indexes)} added", seconds, as_json=as_json)


def run_drop_index(path: str, columns: str, output: str | None, *, as_json: bool) -> None:
    """Drops the secondary indexes on these columns and prints what the file has then."""
    begin = time.perf_counter()
    found = nb.drop_index(path, _names(columns), output=output)
    seconds = time.perf_counter() - begin
    _print_indexes(output or path, found, f"index on {columns} dropped", seconds, as_json=as_json)


def _print_indexes(
    path: str, found: Sequence[nb.IndexInfo], done: str, seconds: float, *, as_json: bool
) -> None:
    if as_json:
        shown = [asdict(info) for info in found]
        print_json({"file": path, "seconds": seconds, "indexes": shown})
        return
    for info in found:
        names = ", ".join(map(str, info.columns))
        typer.echo(f"{info.kind} index on {names}: {format_bytes(info.size_bytes)}")
    typer.echo(f"{path}: {done} in {seconds:.1f} s")


def _indexes(
    hash_indexes: Sequence[str], sorted_indexes: Sequence[str]
) -> list[nb.HashIndex | nb.SortedIndex]:
    found: list[nb.HashIndex | nb.SortedIndex] = [nb.HashIndex(_names(t)) for t in hash_indexes]
    return found + [nb.SortedIndex(parse_sort_keys(text)) for text in sorted_indexes]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
