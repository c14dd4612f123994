"""The commands that look at files: inspect, schema, stats and verify."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import pyarrow as pa
import typer

import nimblepy as nb
from nimblepy.cli.arguments import OutputFormat, Version
from nimblepy.cli.output import print_json, print_rows
from nimblepy.cli.sources import open_rows, open_stored
from nimblepy.files.source import FilesSource
from nimblepy.io.progress import Progress
from nimblepy.join.joinable import Joinable
from nimblepy.rows.rows import source_of
from nimblepy.schema.types import format_bytes

if TYPE_CHECKING:
    from rich.tree import Tree

    from nimblepy.rows.plan import LayoutNode


def _facts(rows: Joinable) -> dict[str, object]:
    of_kind: dict[str, object] = {}
    if isinstance(rows, nb.File):
        of_kind = {"format_version": ".".join(map(str, rows.format_version))}
    elif isinstance(rows, nb.Dataset):
        of_kind = {"files": len(rows.paths)}
    return {
        "rows": rows.num_rows,
        "size_bytes": rows.size_bytes,
        **of_kind,
        "cluster_by": [str(key) for key in rows.cluster_by],
        "unique": rows.unique,
        "indexes": [
            {**asdict(index), "columns": [str(column) for column in index.columns]}
            for index in rows.indexes
        ],
    }


def _print_facts(path: str, rows: Joinable) -> None:
    per_row = f", {rows.size_bytes / rows.num_rows:.2f} bytes per row" if rows.num_rows else ""
    of_kind = ""
    if isinstance(rows, nb.File):
        of_kind = f", format {'.'.join(map(str, rows.format_version))}"
    elif isinstance(rows, nb.Dataset):
        of_kind = f", {len(rows.paths):,} files"
    size = format_bytes(rows.size_bytes)
    typer.echo(f"{path}: {rows.num_rows:,} rows, {size}{per_row}{of_kind}")
    if rows.cluster_by:
        keys = ", ".join(str(key) for key in rows.cluster_by)
        typer.echo(f"cluster key: {keys}{' (unique)' * rows.unique}")
    for index in rows.indexes:
        bloom = ", Bloom filter" * index.has_bloom
        columns = ", ".join(str(column) for column in index.columns)
        size = format_bytes(index.size_bytes)
        typer.echo(f"{index.kind} index on {columns}: {index.num_keys:,} keys, {size}{bloom}")


def print_inspection(path: str, version: Version, *, depth: int, as_json: bool) -> None:
    """Prints the facts of a file or dataset, and the tree of its parts, ``depth`` levels deep."""
    with open_stored(path, version) as rows:
        layout = source_of(rows).layout()
        if as_json:
            print_json({"file": path, **_facts(rows), "layout": layout.to_dict()})
            return
        _print_facts(path, rows)
    from rich.console import Console

    Console().print(_tree(layout, depth))


def _tree(node: LayoutNode, depth: int) -> Tree:
    from rich.text import Text
    from rich.tree import Tree

    tree = Tree(Text(node.label()))
    if depth > 1:
        for child in node.children:
            tree.children.append(_tree(child, depth - 1))
    elif node.children:
        tree.add(Text(f"... {len(node.children)} parts; --depth shows more"))
    return tree


def print_schema(path: str, version: Version, *, as_json: bool) -> None:
    """Prints columns and types, cluster key and indexes."""
    with open_rows(path, version) as file:
        if not as_json:
            _print_facts(path, file)
        fields = [
            {"name": field.name, "type": str(field.type), "nullable": field.nullable}
            for field in file.schema
        ]
        if as_json:
            print_json({"file": path, **_facts(file), "columns": fields})
            return
    columns = pa.schema([("name", pa.string()), ("type", pa.string()), ("nullable", pa.bool_())])
    batch = pa.RecordBatch.from_pylist(fields, schema=columns)
    print_rows([batch], columns, "table", chosen=False)


_STATS = pa.schema(
    [
        ("column", pa.string()),
        ("type", pa.string()),
        ("size_bytes", pa.int64()),
        ("share_percent", pa.float64()),
        ("bytes_per_row", pa.float64()),
        ("encodings", pa.string()),
    ]
)


def print_stats(path: str, version: Version, output: OutputFormat) -> None:
    """Prints for each column its bytes, share of the file, and encodings, over all stripes."""
    with open_stored(path, version) as file:
        sizes: Counter[str] = Counter()
        encodings: dict[str, Counter[str]] = {}
        stripes = (node for node in source_of(file).layout().walk() if node.kind == "stripe")
        for node in (column for stripe in stripes for column in stripe.children):
            sizes[node.name] += node.size_bytes
            used = encodings.setdefault(node.name, Counter())
            used.update(part.encoding for part in node.walk() if part.encoding)
        rows = [
            {
                "column": field.name,
                "type": str(field.type),
                "size_bytes": sizes[field.name],
                "share_percent": round(100 * sizes[field.name] / max(file.size_bytes, 1), 1),
                "bytes_per_row": round(sizes[field.name] / max(file.num_rows, 1), 3),
                "encodings": ", ".join(
                    name for name, _ in encodings.get(field.name, Counter()).most_common(3)
                ),
            }
            for field in file.schema
        ]
        if output == "table":
            _print_facts(path, file)
    batch = pa.RecordBatch.from_pylist(rows, schema=_STATS)
    print_rows([batch], _STATS, output, chosen=False)


def _damage(rows: Joinable) -> list[Exception]:
    """Verifies rows. Returns an error for each file that is damaged or missing."""
    source = source_of(rows)
    try:
        if isinstance(source, FilesSource):
            return list(source.damage())
        rows.verify()
    except (nb.CorruptFileError, nb.StaleFileError, FileNotFoundError) as error:
        return [error]
    return []


def verify_files(paths: Sequence[str], version: Version, *, as_json: bool) -> bool:
    """Verifies files one after another. Returns whether all are undamaged."""
    undamaged = True
    bar = Progress(sys.stderr.isatty(), len(paths), stage="verifying", unit="files")
    try:
        for path in paths:
            started = time.perf_counter()
            errors: Sequence[Exception] = ()
            try:
                with open_stored(path, version) as file:
                    errors = _damage(file)
                    rows, size = (0, 0) if errors else (file.num_rows, file.size_bytes)
            except nb.CorruptFileError as error:
                errors = [error]
            for damage in errors:
                undamaged = False
                if as_json:
                    print_json({"file": path, "ok": False, "error": str(damage)})
                else:
                    typer.echo(f"nimble: error: {damage}", err=True)
            if errors:
                continue
            seconds = time.perf_counter() - started
            bar.advance(1)
            if as_json:
                print_json({"file": path, "ok": True, "rows": rows, "size_bytes": size})
            else:
                typer.echo(f"{path}: ok, {rows:,} rows, {format_bytes(size)} in {seconds:.2f} s")
    finally:
        bar.finish()
    return undamaged
