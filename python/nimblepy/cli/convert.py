"""The commands that write: ``convert``, ``merge``, ``add-index`` and ``drop-index``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any, get_args

import typer

import nimblepy as nb
from nimblepy.cli.arguments import Version
from nimblepy.cli.output import print_json, split_names
from nimblepy.cli.sources import (
    is_table,
    no_table,
    not_a_table,
    only_file,
    open_rows,
)
from nimblepy.io.location import locate
from nimblepy.rows.nearest import Metric
from nimblepy.schema.types import as_sort_keys, format_bytes, parse_sort_keys
from nimblepy.table.base.places import has_catalog

# Names of files that are not nimble files, and what writes such a file.
_OTHER_FORMATS = {
    ".csv": "print the rows with nimble scan SOURCE --csv",
    ".json": "print the rows with nimble scan SOURCE --json",
    ".jsonl": "print the rows with nimble scan SOURCE --json",
    ".ndjson": "print the rows with nimble scan SOURCE --json",
    ".parquet": "write it in Python with pyarrow.parquet.write_table(source.to_table(), path)",
}


def run_convert(
    source: str,
    target: str,
    version: Version,
    *,
    cluster_by: str | None,
    hash_indexes: Sequence[str],
    sorted_indexes: Sequence[str],
    vector_indexes: Sequence[str],
    columns: str | None,
    compression: str,
    overwrite: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Converts data, with a progress bar on a terminal, and prints a summary."""
    only_file(target, "convert", "its rows are changed by append and overwrite of Python")
    suffix = os.path.splitext(target)[1].lower()
    if suffix in _OTHER_FORMATS:
        raise nb.InvalidArgumentError(
            f"convert writes nimble files, but {target!r} is the name of another format; name it "
            f"*.nimble, or {_OTHER_FORMATS[suffix]}"
        )
    if not overwrite and locate(target).exists():
        raise nb.InvalidArgumentError(f"{target} exists; pass --overwrite to replace it")
    keys = parse_sort_keys(cluster_by) if cluster_by else ()
    indexes = parse_indexes(hash_indexes, sorted_indexes, vector_indexes)
    names = None if columns is None else split_names(columns)
    for key in keys + tuple(key for index in indexes for key in as_sort_keys(index.columns)):
        if names is not None and not {key.column, str(key.column).split(".")[0]} & {*names}:
            raise nb.InvalidArgumentError(
                f"--columns leaves out {key.column!r}, which the file is to be clustered or "
                "indexed by"
            )
    with ExitStack() as stack:
        rows: Any = source
        if has_catalog(source):
            raise no_table(source)
        if is_table(source):
            if chosen.pop("format", None) is not None:
                raise nb.InvalidArgumentError(f"--format is for files, but {source} is a table")
            rows = stack.enter_context(open_rows(source, version))
        elif version.given:
            raise not_a_table(source, version)
        summary = nb.convert(
            rows,
            target,
            columns=names,
            cluster_by=keys,
            indexes=indexes,
            options=nb.WriteOptions(
                compression=compression  # type: ignore[arg-type]  # checked where it is used
            ),
            progress=sys.stderr.isatty(),
            **chosen,
        )
    if as_json:
        print_json({"file": target, **asdict(summary)})
    else:
        typer.echo(f"{target}: {summary}")


def run_merge(
    sources: Sequence[str],
    target: str,
    version: Version,
    *,
    cluster_by: str | None,
    unique: bool | None,
    compression: str,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Merges all sources into one file with the key and indexes of the first."""
    only_file(target, "merge", "its rows are changed by append and overwrite of Python")
    if not overwrite and locate(target).exists():
        raise nb.InvalidArgumentError(f"{target} exists; pass --overwrite to replace it")
    with ExitStack() as stack:
        rows = [stack.enter_context(open_rows(source, version)) for source in sources]
        first = rows[0]
        keys = list(first.cluster_by) if cluster_by is None else parse_sort_keys(cluster_by)
        for source, other in zip(sources, rows, strict=True):
            if cluster_by is None and list(other.cluster_by) != keys:
                shown = ", ".join(map(str, other.cluster_by)) or "nothing"
                raise nb.InvalidArgumentError(
                    f"{source} is clustered by {shown}, {sources[0]} by "
                    f"{', '.join(map(str, keys)) or 'nothing'}; pass --cluster-by"
                )
        summary = nb.write(
            (other.scan() for other in rows),
            target,
            cluster_by=keys,
            unique=bool(keys) and all(r.unique for r in rows) if unique is None else unique,
            indexes=[_again(index) for index in first.indexes if index.kind != "cluster"],
            options=nb.WriteOptions(
                compression=compression  # type: ignore[arg-type]  # checked where it is used
            ),
            progress=sys.stderr.isatty(),
        )
    if as_json:
        print_json({"file": target, **asdict(summary)})
    else:
        typer.echo(f"{target}: {summary}")


def _again(index: nb.IndexInfo) -> nb.HashIndex | nb.SortedIndex | nb.VectorIndex:
    """Returns the definition of an existing index."""
    if index.kind == "vector":
        if index.metric is None:
            raise nb.UnsupportedVersionError(
                f"the metric of the vector index on {index.columns[0]} is unknown to this version; "
                "use the version that wrote the file, or drop the index"
            )
        return nb.VectorIndex(str(index.columns[0].column), metric=index.metric)  # type: ignore[arg-type]
    if index.kind == "sorted":
        return nb.SortedIndex(list(index.columns))
    columns = [key.column for key in index.columns]
    return (
        nb.HashIndex(columns) if index.has_bloom else nb.HashIndex(columns, bloom_bits_per_key=None)
    )


def run_add_index(
    path: str,
    hash_indexes: Sequence[str],
    sorted_indexes: Sequence[str],
    vector_indexes: Sequence[str],
    output: str | None,
    *,
    as_json: bool,
) -> None:
    """Adds indexes, with a progress bar on a terminal, and prints the indexes of the file."""
    only_file(path, "add-index", "it gets its indexes by create_table(indexes=)")
    indexes = parse_indexes(hash_indexes, sorted_indexes, vector_indexes)
    if not indexes:
        raise nb.InvalidArgumentError(
            "nothing to add: pass --hash-index, --sorted-index or --vector-index"
        )
    begin = time.perf_counter()
    file_indexes = nb.add_index(path, indexes, output=output, progress=sys.stderr.isatty())
    seconds = time.perf_counter() - begin
    _print_indexes(output or path, file_indexes, f"{len(indexes)} added", seconds, as_json=as_json)


def run_drop_index(path: str, columns: str, output: str | None, *, as_json: bool) -> None:
    """Drops the secondary indexes on these columns and prints the remaining indexes."""
    only_file(path, "drop-index", "it gets its indexes by create_table(indexes=)")
    begin = time.perf_counter()
    file_indexes = nb.drop_index(path, split_names(columns), output=output)
    seconds = time.perf_counter() - begin
    _print_indexes(
        output or path, file_indexes, f"index on {columns} dropped", seconds, as_json=as_json
    )


def _print_indexes(
    path: str, indexes: Sequence[nb.IndexInfo], done: str, seconds: float, *, as_json: bool
) -> None:
    if as_json:
        shown = [asdict(info) for info in indexes]
        print_json({"file": path, "seconds": seconds, "indexes": shown})
        return
    for info in indexes:
        names = ", ".join(map(str, info.columns))
        typer.echo(f"{info.kind} index on {names}: {format_bytes(info.size_bytes)}")
    typer.echo(f"{path}: {done} in {seconds:.1f} s")


def parse_indexes(
    hash_indexes: Sequence[str], sorted_indexes: Sequence[str], vector_indexes: Sequence[str]
) -> list[nb.HashIndex | nb.SortedIndex | nb.VectorIndex]:
    """Returns the indexes of ``--hash-index``, ``--sorted-index`` and ``--vector-index``."""
    return [
        *(nb.HashIndex(split_names(text)) for text in hash_indexes),
        *(nb.SortedIndex(parse_sort_keys(text)) for text in sorted_indexes),
        *(_vector_index(text) for text in vector_indexes),
    ]


def _vector_index(text: str) -> nb.VectorIndex:
    """Parses ``"embedding"`` or ``"embedding cosine"``."""
    column, _, last = text.strip().rpartition(" ")
    if column and last in get_args(Metric):
        return nb.VectorIndex(column.rstrip(), metric=last)  # type: ignore[arg-type]
    return nb.VectorIndex(text.strip())
