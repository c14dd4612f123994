"""The commands that change tables: rows, columns, versions and names."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Literal

import pyarrow as pa
import typer

from nimblepy.cli.arguments import Version
from nimblepy.cli.column_types import parse_column, parse_columns
from nimblepy.cli.convert import parse_indexes
from nimblepy.cli.output import print_json, split_names
from nimblepy.cli.query import parameters
from nimblepy.cli.sources import is_table, open_lake, open_table, snapshot_of
from nimblepy.errors import InvalidArgumentError
from nimblepy.input.foreign import open_files
from nimblepy.schema.types import parse_sort_keys
from nimblepy.table.table import Table
from nimblepy.table.writing.commit import Commit


def run_create(
    text: str,
    paths: Sequence[str],
    schema: str | None,
    format: str | None,
    *,
    primary_key: str | None,
    cluster_by: str | None,
    partition_by: Sequence[str],
    hash_indexes: Sequence[str],
    sorted_indexes: Sequence[str],
    vector_indexes: Sequence[str],
    data_format: str,
    format_version: int,
    properties: Sequence[str],
    comment: str | None,
    if_not_exists: bool,
    as_json: bool,
) -> None:
    if bool(paths) == (schema is not None):
        raise InvalidArgumentError("create: pass files with rows, or --schema")
    lake, name = open_lake(text, create=True)
    arguments: dict[str, Any] = {
        "primary_key": None if primary_key is None else split_names(primary_key),
        "cluster_by": None if cluster_by is None else parse_sort_keys(cluster_by),
        "partition_by": list(partition_by),
        "indexes": parse_indexes(hash_indexes, sorted_indexes, vector_indexes),
        "data_format": data_format,
        "format_version": format_version,
        "properties": named_values("--property", properties),
        "comment": comment,
        "if_exists": "ignore" if if_not_exists else "error",
    }
    if schema is not None:
        table = lake.create_table(name, parse_columns(schema), **arguments)
    else:
        with _rows(paths, format, None) as rows:
            table = lake.create_table(name, rows, **arguments)
    if as_json:
        print_json({"table": table.name, "snapshot": table.snapshot, "rows": table.num_rows})
    else:
        typer.echo(f"{text}: {table.num_rows:,} rows")


def run_append(
    text: str,
    branch: str | None,
    paths: Sequence[str],
    format: str | None,
    *,
    cast: bool,
    batch: str | None,
    as_json: bool,
    **arguments: Any,
) -> None:
    table = _open_branch(text, branch)
    with _rows(paths, format, table.schema, cast=cast) as rows:
        done = table.append(
            rows, cast=cast, batch=_batch(batch), progress=_progress(as_json=as_json), **arguments
        )
    _print_commit(text, done, as_json=as_json, batch=batch)


def run_upsert(
    text: str,
    branch: str | None,
    paths: Sequence[str],
    format: str | None,
    update: str | None,
    *,
    cast: bool,
    batch: str | None,
    as_json: bool,
    **arguments: Any,
) -> None:
    table = _open_branch(text, branch)
    names = None if update is None else split_names(update)
    with _rows(paths, format, table.schema, cast=cast) as rows:
        done = table.upsert(rows, update=names, cast=cast, batch=_batch(batch), **arguments)
    _print_commit(text, done, as_json=as_json, batch=batch)


def run_delete(
    text: str, branch: str | None, filter: str, params: Sequence[str] | None, *, as_json: bool
) -> None:
    done = _open_branch(text, branch).delete(filter, params=parameters(params))
    _print_commit(text, done, as_json=as_json)


def run_alter(
    text: str,
    *,
    add: Sequence[str],
    rename: Sequence[str],
    widen: Sequence[str],
    drop: Sequence[str],
    partition_by: Sequence[str],
    properties: Sequence[str],
    unset: Sequence[str],
    docs: Sequence[str],
    comment: str | None,
    as_json: bool,
) -> None:
    changes = (add, rename, widen, drop, partition_by, properties, unset, docs)
    if not any(changes) and comment is None:
        raise InvalidArgumentError("alter: nothing to change; see nimble table alter --help")
    table = open_table(text)
    with table.alter() as alter:
        for old, new in named_values("--rename", rename).items():
            alter.rename_column(old, new)
        for field in map(parse_column, widen):
            alter.widen(field.name, field.type)
        for field in map(parse_column, add):
            alter.add_column(field.name, field.type)
        for column in drop:
            alter.drop_column(column)
        if partition_by:
            alter.partition_by([] if list(partition_by) == ["none"] else list(partition_by))
        if properties:
            alter.set_properties(named_values("--property", properties))
        if unset:
            alter.unset_properties(unset)
        for column, text_of_column in named_values("--doc", docs).items():
            alter.set_doc(column, text_of_column)
        if comment is not None:
            alter.set_comment(comment or None)
    if as_json:
        columns = {field.name: str(field.type) for field in table.schema}
        print_json({"columns": columns, "partition_by": table.partition_by})
    else:
        typer.echo(f"{text}: {len(table.schema)} columns")


def run_reference(
    text: str,
    version: Version,
    kind: Literal["tag", "branch"],
    name: str | None,
    *,
    drop: bool,
    replace: bool = False,
) -> None:
    table = open_table(text)
    references = table.tags if kind == "tag" else table.branches
    if name is None:
        for each, snapshot in references.items():
            typer.echo(f"{each}: {snapshot}")
    elif drop:
        if name not in references:
            shown = ", ".join(references) or "none"
            raise InvalidArgumentError(f"{text} has no {kind} {name!r}; there are {shown}")
        table.drop_reference(name)
        typer.echo(f"{text}: {kind} {name!r} dropped")
    else:
        named = open_table(text, version).snapshot
        if kind == "tag":
            table.tag(name, named, replace)
        else:
            table.branch(name, named)
        # A table without rows gets its first snapshot for the name.
        named = (table.tags if kind == "tag" else table.branches)[name]
        typer.echo(f"{text}: {kind} {name!r} names snapshot {named}")


def run_fast_forward(text: str, branch: str, to: str) -> None:
    table = open_table(text)
    table.fast_forward(branch, to=to)
    typer.echo(f"{text}: branch {branch!r} is at snapshot {table.branches[branch]}")


def run_rollback(text: str, to: str | None, version: Version, *, yes: bool) -> None:
    if (to is None) == (not version.given):
        raise InvalidArgumentError("rollback: name one snapshot, by its id, a tag or --time")
    table = open_table(text)
    if to is not None:
        given = snapshot_of(table, to)
        version = Version(snapshot=given) if isinstance(given, int) else Version(tag=given)
    snapshot = open_table(text, version).snapshot
    if snapshot is None or snapshot == table.snapshot:
        typer.echo(f"{text}: snapshot {snapshot} is the newest one already")
        return
    confirm(f"Roll back {text} from snapshot {table.snapshot} to {snapshot}?", yes=yes)
    table.rollback(snapshot)
    typer.echo(f"{text}: rolled back to snapshot {snapshot}")


def run_register(text: str, metadata_file: str) -> None:
    lake, name = open_lake(text, create=True)
    table = lake.register(name, metadata_file)
    typer.echo(f"{text}: {table.num_rows:,} rows")


def run_publish_delta(text: str, *, keep: bool) -> None:
    version = open_table(text).publish_delta(keep=keep)
    later = "" if keep else "; later commits are not published"
    typer.echo(f"{text}: Delta version {version}{later}")


def run_drop(text: str, *, purge: bool, yes: bool) -> None:
    lake, name = open_lake(text)
    rows = lake.table(name).num_rows
    files = "and remove all its files" if purge else "and keep its files"
    confirm(f"Drop {text}, {rows:,} rows, {files}?", yes=yes)
    lake.drop_table(name, purge=purge)
    typer.echo(f"{text}: dropped")


def confirm(question: str, *, yes: bool) -> None:
    """Asks before a change that loses something. Exits with status 1 if the answer is no."""
    if yes:
        return
    try:
        agreed = typer.confirm(question)
    except typer.Abort:
        raise InvalidArgumentError("no answer to the question; pass --yes to agree") from None
    if not agreed:
        typer.echo("nothing was changed", err=True)
        raise typer.Exit(1)


def named_values(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Parses ``NAME=VALUE`` pairs."""
    pairs = [text.partition("=") for text in texts]
    for text, (name, sign, value) in zip(texts, pairs, strict=True):
        if not (name and sign and value):
            raise InvalidArgumentError(f"{option}: expected NAME=VALUE, got {text!r}")
    return {name: value for name, _, value in pairs}


def _open_branch(text: str, branch: str | None) -> Table:
    return open_table(text, Version(branch=branch))


@contextmanager
def _rows(
    paths: Sequence[str], format: str | None, target: pa.Schema | None, *, cast: bool = False
) -> Iterator[pa.RecordBatchReader | Table]:
    """The rows of files, or of one table."""
    if len(paths) == 1 and is_table(paths[0]):
        if format is not None:
            raise InvalidArgumentError(f"--format is for files, but {paths[0]} is a table")
        with open_table(paths[0]) as table:
            yield table
        return
    for path in paths:
        if is_table(path):
            raise InvalidArgumentError(f"{path} is a table; pass one table, or only files")
    kind: Any = format  # checked where it is used
    files = [os.fspath(path) for path in paths]
    yield open_files(files, format=kind, target=target, cast=cast).reader


def _batch(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    name, sign, number = text.rpartition("=")
    if not (name and sign and number.isdecimal()):
        raise InvalidArgumentError(f"--batch: expected NAME=NUMBER, got {text!r}")
    return name, int(number)


def _progress(*, as_json: bool) -> bool:
    return not as_json and sys.stderr.isatty()


def _print_commit(text: str, done: Commit, *, as_json: bool, batch: str | None = None) -> None:
    if as_json:
        print_json(asdict(done))
        return
    if batch is not None and not done.files_added:
        typer.echo(
            f"{text}: nothing changed: there are no rows, or the table already has batch {batch} "
            "or a later one of this name"
        )
        return
    deleted = f"{done.rows_deleted:,} deleted, " if done.rows_deleted else ""
    typer.echo(
        f"{text}: {done.rows_inserted:,} rows inserted, {done.rows_updated:,} updated, {deleted}"
        f"{done.files_added:,} files added, snapshot {done.snapshot}"
    )
