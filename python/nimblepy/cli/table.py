"""The commands for tables: names, content, history and maintenance."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import asdict
from html import escape
from typing import Any

import pyarrow as pa
import typer

from nimblepy.cli.arguments import OutputFormat, Version
from nimblepy.cli.output import print_json, print_rows, split_names
from nimblepy.cli.sources import existing_catalog, open_table, parse_age, snapshot_of
from nimblepy.input.foreign import selected
from nimblepy.schema.types import format_bytes
from nimblepy.table.base.model import COMMENT
from nimblepy.table.catalog import connect
from nimblepy.table.handle import files_of
from nimblepy.table.reading.changes import CHANGE
from nimblepy.table.table import Table
from nimblepy.table.upkeep.analyze import Analysis
from nimblepy.table.upkeep.maintain import Removal
from nimblepy.table.upkeep.plot_layout import page
from nimblepy.table.upkeep.rewrite import ManifestRewrite
from nimblepy.table.writing.commit import Commit

_HISTORY = pa.schema(
    {
        "time (UTC)": pa.string(),
        "snapshot_id": pa.int64(),
        "operation": pa.string(),
        "rows": pa.string(),
        "names": pa.string(),
    }
)


def print_tables(catalog: str, output: OutputFormat) -> None:
    names = connect(existing_catalog(catalog), create=False).tables()
    _print(pa.table({"table": pa.array(names, pa.string())}), output)


def show_table(text: str, version: Version, *, as_json: bool) -> None:
    table = open_table(text, version)
    facts: dict[str, object] = {
        "table": table.name,
        "location": table.location,
        "metadata": table.metadata_location,
        "snapshot": table.snapshot,
        "rows": table.num_rows,
        "files": files_of(table).num_files,
        "bytes": table.size_bytes,
        "primary_key": table.primary_key,
        "cluster_by": [str(key) for key in table.cluster_by],
        "partition_by": table.partition_by,
        "indexes": [
            f"{index.kind} on {', '.join(map(str, index.columns))}" for index in table.indexes
        ],
        "comment": table.comment,
        "properties": {k: v for k, v in table.properties.items() if k != COMMENT},
        "tags": table.tags,
        "branches": table.branches,
        "columns": {field.name: str(field.type) for field in table.schema},
    }
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        if isinstance(value, dict):
            typer.echo(f"{name}:")
            for key, item in value.items():
                typer.echo(f"  {key}: {item}")
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            typer.echo(f"{name}: {'none' if shown in (None, '') else shown}")


def print_history(text: str, columns: str | None, output: OutputFormat) -> None:
    table = open_table(text)
    snapshots = table.snapshots()
    if output == "table" and columns is None:
        snapshots = _history_for_people(table, snapshots)
    _print(snapshots, output, columns)


def _history_for_people(table: Table, snapshots: pa.Table) -> pa.Table:
    """Returns what fits on a screen: times in seconds, changes in one column, tags and branches."""
    names: dict[int, list[str]] = {}
    for name, snapshot in {**table.branches, **table.tags}.items():
        names.setdefault(snapshot, []).append(name)
    rows = [
        {
            "time (UTC)": f"{row['timestamp']:%Y-%m-%d %H:%M:%S}",
            "snapshot_id": row["snapshot_id"],
            "operation": row["operation"],
            "rows": _changed_rows(row),
            "names": ", ".join(names.get(row["snapshot_id"], [])),
        }
        for row in snapshots.to_pylist()
    ]
    return pa.Table.from_pylist(rows, schema=_HISTORY)


def _changed_rows(row: dict[str, Any]) -> str:
    signs = {"rows_inserted": "+", "rows_updated": "~", "rows_deleted": "-"}
    return " ".join(f"{sign}{row[name]:,}" for name, sign in signs.items() if row[name])


def print_files(text: str, version: Version, columns: str | None, output: OutputFormat) -> None:
    _print(open_table(text, version).files(), output, columns)


def print_partitions(
    text: str, version: Version, columns: str | None, output: OutputFormat
) -> None:
    _print(open_table(text, version).partitions(), output, columns)


def print_changes(
    text: str, since: str, until: str | None, columns: str | None, output: OutputFormat
) -> None:
    table = open_table(text)
    first = None if since == "none" else snapshot_of(table, since)
    last = None if until is None else snapshot_of(table, until)
    names = None if columns is None else split_names(columns)
    reader = table.changes(first, last, columns=names)
    if output != "table":
        print_rows(reader, reader.schema, output)
        return
    # Columns that do not fit on the screen are left out on the right.
    order = [CHANGE, *(name for name in reader.schema.names if name != CHANGE)]
    schema = pa.schema([reader.schema.field(name) for name in order])
    print_rows((batch.select(order) for batch in reader), schema, output)


def run_compact(
    text: str, filter: str | None, target_bytes: int, where_needed: bool, *, as_json: bool
) -> None:
    done = open_table(text).compact(
        filter=filter,
        target_bytes=target_bytes,
        where_needed=where_needed,
        progress=not as_json and sys.stderr.isatty(),
    )
    if as_json:
        print_json(dataclasses.asdict(done))
        return
    typer.echo(_what_was_done(done))


def run_optimize(text: str, budget_bytes: int | None, *, as_json: bool) -> None:
    done = open_table(text).optimize(budget_bytes=budget_bytes)
    if as_json:
        print_json({name: asdict(result) for name, result in done.items()})
        return
    for name, result in done.items():
        typer.echo(f"{name}: {_what_was_done(result)}")
    if not done:
        typer.echo("nothing to do")


def run_rewrite_manifests(text: str, *, whole: bool, as_json: bool) -> None:
    done = open_table(text).rewrite_manifests(whole=whole)
    if as_json:
        print_json(asdict(done))
    else:
        typer.echo(_what_was_done(done))


def _what_was_done(done: object) -> str:
    """Returns the result of one method of upkeep, for people."""
    if isinstance(done, Commit):
        size = format_bytes(done.bytes_written)
        return f"{done.files_removed:,} files became {done.files_added:,}, {size}"
    if isinstance(done, ManifestRewrite):
        return f"{done.manifests_before:,} manifests became {done.manifests_after:,}"
    if isinstance(done, Analysis):
        return f"{len(done.distinct):,} columns, {done.rows_read:,} rows read"
    assert isinstance(done, Removal)
    return (
        f"{len(done.snapshots):,} snapshots, {len(done.files):,} files, {format_bytes(done.bytes)}"
    )


def show_health(text: str, plot: str | None, *, as_json: bool) -> bool:
    """Prints the health of a table. Returns whether there is advice."""
    health = open_table(text).health()
    if plot is not None:
        picture = health.to_svg()
        if plot.endswith((".html", ".htm")):
            picture = (
                f'<!doctype html><meta charset="utf-8"><title>{escape(health.name)}</title>\n'
                f"{picture}<pre>{escape(repr(health))}</pre>\n"
            )
        with open(plot, "w", encoding="utf-8") as target:
            target.write(picture)
    if as_json:
        print_json(asdict(health))
    else:
        typer.echo(repr(health))
    return bool(health.advice)


def show_layout(text: str, version: Version, columns: str | None, path: str | None) -> None:
    """Prints the layout, or draws it as SVG or HTML."""
    table = open_table(text, version)
    if path is None:
        typer.echo(f"{table.name}: {table.layout_by or 'no layout'}")
        return
    svg = table.draw_layout(None if columns is None else split_names(columns))
    made = page(svg, table.name) if path.endswith((".html", ".htm")) else svg
    with open(path, "w", encoding="utf-8") as sink:
        sink.write(made)
    typer.echo(f"{path}: {format_bytes(len(made))}")


def run_expire(
    text: str, keep: int | None, older_than: str | None, dry_run: bool, *, as_json: bool
) -> None:
    age = None if older_than is None else parse_age(older_than)
    done = open_table(text).expire(keep=keep, older_than=age, dry_run=dry_run)
    _print_removal(done, as_json=as_json)


def run_analyze(text: str, columns: str | None, *, as_json: bool) -> None:
    done = open_table(text).analyze(None if columns is None else split_names(columns))
    if as_json:
        print_json(asdict(done))
        return
    width = max(map(len, done.distinct), default=0)
    for name, count in done.distinct.items():
        typer.echo(f"{name:{width}}  {count:,}")


def run_orphans(text: str, older_than: str, dry_run: bool, *, as_json: bool) -> None:
    done = open_table(text).remove_orphans(older_than=parse_age(older_than), dry_run=dry_run)
    _print_removal(done, as_json=as_json)


def run_relocate(text: str, old_root: str | None, *, as_json: bool) -> None:
    catalog, mark, name = text.rpartition("#")
    lake = connect(existing_catalog(catalog if mark else text), create=False)
    changed = lake.relocate(name if mark else None, old_root=old_root)
    if as_json:
        print_json({"tables": changed})
    else:
        typer.echo("\n".join(changed) or "no table has paths to a former location")


def _print_removal(done: Removal, *, as_json: bool) -> None:
    if as_json:
        print_json({"snapshots": done.snapshots, "files": done.files, "bytes": done.bytes})
        return
    typer.echo(_what_was_done(done))


def _print(table: pa.Table, output: OutputFormat, columns: str | None = None) -> None:
    if columns is not None:
        table = table.select(selected(table.schema, split_names(columns)).names)
    print_rows(table.to_batches(), table.schema, output)
