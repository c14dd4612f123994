"""The ``nimble`` command: inspects, writes and queries nimble files and tables.

Imports only typer, so that ``nimble --help`` is fast. Commands import the rest when they run. Rows
are printed to standard output; progress, notes and errors to standard error.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup


class _Group(TyperGroup):
    """Prints errors that a user can act on in one line, and exits with status 1."""

    def invoke(self, ctx: Any) -> Any:
        from nimblepy.cli.errors import one_line_errors

        with one_line_errors():
            return super().invoke(ctx)


class _TakesNumbers(TyperCommand):
    """Accepts ``-5`` and ``-1.5`` as values, although options begin with a dash."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # The argument of a program cannot contain a NUL.
        hidden = ["\0" + arg if re.match(r"-\.?\d", arg) else arg for arg in args]
        rest: list[str] = super().parse_args(ctx, hidden)
        for name, value in ctx.params.items():
            if isinstance(value, str):
                ctx.params[name] = value.removeprefix("\0")
            elif isinstance(value, (list, tuple)):
                ctx.params[name] = [item.removeprefix("\0") for item in value]
        return rest


class _TakesFilter(TyperCommand):
    """Explains how to pass a condition if there is one argument too many."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.allow_extra_args = True
        rest: list[str] = super().parse_args(ctx, args)
        if rest:
            ctx.fail(f"one argument too many: {rest[0]!r}; a condition is given as --filter")
        return rest


app = typer.Typer(
    cls=_Group,
    help="Columnar files with built-in indexes: inspect, convert, look up, scan and verify them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="A nimble file: path or URI.")]
RowsArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="A nimble file, a directory of them, or CATALOG#TABLE: path or URI."
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON; rows as one object per line.")
]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")]
ColumnsOption = Annotated[
    str | None, typer.Option("--columns", "-c", help="Columns to print: a,b,location.lat")
]
OnOption = Annotated[
    str | None, typer.Option("--on", help="Indexed columns: a,b. Default: the cluster key.")
]
ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Print what the command would read, without reading rows.")
]
ParamOption = Annotated[
    list[str] | None,
    typer.Option("--param", "-p", help="Value of $NAME in the filter: NAME=VALUE. Repeatable."),
]
LimitOption = Annotated[int | None, typer.Option("--limit", "-n", min=0, help="Most rows.")]


def _print_version(requested: bool) -> None:
    if requested:
        from nimblepy import __version__

        typer.echo(f"nimble {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def inspect(
    file: RowsArgument,
    depth: Annotated[
        int, typer.Option("--depth", "-d", min=1, help="Levels of the layout tree to print.")
    ] = 3,
    json: JsonOption = False,
) -> None:
    """Print what a file contains: stripes, columns, encodings, indexes and their bytes."""
    from nimblepy.cli.inspect import print_inspection

    print_inspection(file, depth=depth, as_json=json)


@app.command()
def schema(file: RowsArgument, json: JsonOption = False) -> None:
    """Print columns with their types, the cluster key and the indexes."""
    from nimblepy.cli.inspect import print_schema

    print_schema(file, as_json=json)


@app.command()
def stats(file: RowsArgument, json: JsonOption = False, csv: CsvOption = False) -> None:
    """Print bytes and encodings of each column over the whole file."""
    from nimblepy.cli.inspect import print_stats
    from nimblepy.cli.output import output_format

    print_stats(file, output_format(json, csv))


@app.command()
def verify(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Nimble files, directories of them, CATALOG#TABLE."),
    ],
    json: JsonOption = False,
) -> None:
    """Check every checksum and invariant; exit with status 1 at the first damaged file."""
    from nimblepy.cli.inspect import verify_files

    verify_files(files, as_json=json)


@app.command()
def convert(
    source: Annotated[
        str,
        typer.Argument(
            help="Parquet, CSV, JSON lines, Arrow or nimble: a file, directory or glob; or "
            "CATALOG#TABLE."
        ),
    ],
    target: Annotated[str, typer.Argument(help="The nimble file to write: path or URI.")],
    cluster_by: Annotated[
        str | None,
        typer.Option(help="Sort rows and index them by: 'a, b desc nulls first'"),
    ] = None,
    unique: Annotated[bool, typer.Option(help="Refuse duplicate cluster keys.")] = False,
    presorted: Annotated[
        bool, typer.Option(help="Rows are in key order already (checked).")
    ] = False,
    hash_index: Annotated[
        list[str] | None, typer.Option(help="Columns of a hash index: a,b. Repeatable.")
    ] = None,
    sorted_index: Annotated[
        list[str] | None, typer.Option(help="Columns of a sorted index: 'a, b desc'. Repeatable.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", "-c", help="Columns to keep: a,b")
    ] = None,
    compression: Annotated[str, typer.Option(help="balanced, fast or compact.")] = "balanced",
    format: Annotated[
        str | None,
        typer.Option(help="parquet, csv, tsv, json, arrow or nimble. Default: as files say."),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing target.")] = False,
    json: JsonOption = False,
) -> None:
    """Write Parquet, CSV, JSON lines, Arrow or a table as one nimble file, in constant memory."""
    from nimblepy.cli.convert import run_convert

    run_convert(
        source,
        target,
        cluster_by=cluster_by,
        hash_indexes=hash_index or (),
        sorted_indexes=sorted_index or (),
        columns=columns,
        compression=compression,
        overwrite=overwrite,
        as_json=json,
        unique=unique,
        presorted=presorted,
        format=format,
    )


@app.command(cls=_TakesNumbers)
def lookup(
    file: RowsArgument,
    keys: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...",
            help="Keys; a composite one as 'x,7', text with a comma in it as '\"eu, de\",3'.",
        ),
    ],
    on: OnOption = None,
    columns: ColumnsOption = None,
    explain: ExplainOption = False,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Print the rows with the given keys, through an index."""
    from nimblepy.cli.output import output_format
    from nimblepy.cli.query import Query, run_lookup

    query = Query(on=on, columns=columns, explain=explain, output=output_format(json, csv))
    run_lookup(file, keys, query)


@app.command(cls=_TakesNumbers)
def range(
    file: RowsArgument,
    lower: Annotated[str | None, typer.Option(help="Lower bound, or a prefix of it: 'x,7'")] = None,
    upper: Annotated[str | None, typer.Option(help="Upper bound.")] = None,
    inclusive: Annotated[str, typer.Option(help="Which bounds are included: [) [] () (]")] = "[)",
    prefix: Annotated[
        str | None, typer.Option(help="Rows whose key starts with these values; ab* for text.")
    ] = None,
    on: OnOption = None,
    columns: ColumnsOption = None,
    limit: LimitOption = None,
    reverse: Annotated[bool, typer.Option(help="From the end of the range.")] = False,
    explain: ExplainOption = False,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Print the rows between two keys, or with a key prefix, in key order."""
    from nimblepy.cli.output import output_format
    from nimblepy.cli.query import Bounds, Query, run_range

    query = Query(
        on=on, columns=columns, limit=limit, explain=explain, output=output_format(json, csv)
    )
    bounds = Bounds(
        lower=lower,
        upper=upper,
        inclusive=inclusive,  # type: ignore[arg-type]  # checked where it is used
        prefix=prefix,
        reverse=reverse,
    )
    run_range(file, bounds, query)


@app.command(cls=_TakesFilter)
def scan(
    file: RowsArgument,
    filter: Annotated[
        str | None, typer.Option("--filter", "-f", help='SQL condition: "x > 3 AND k = 7"')
    ] = None,
    param: ParamOption = None,
    columns: ColumnsOption = None,
    limit: LimitOption = None,
    count: Annotated[bool, typer.Option("--count", help="Print the number of rows only.")] = False,
    explain: ExplainOption = False,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Print rows in file order: all rows, or those that pass a filter."""
    from nimblepy.cli.output import output_format
    from nimblepy.cli.query import Query, parameters, run_scan

    query = Query(columns=columns, limit=limit, explain=explain, output=output_format(json, csv))
    run_scan(file, filter, parameters(param), query, count_only=count)


@app.command()
def sql(
    file: RowsArgument,
    query: Annotated[
        str, typer.Argument(help='"SELECT a, count(*) FROM t WHERE b > 3 GROUP BY a"; t is FILE.')
    ],
    param: ParamOption = None,
    explain: ExplainOption = False,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Print the result of a query of DuckDB over the rows, which are the view t."""
    from nimblepy.cli.output import output_format
    from nimblepy.cli.query import parameters
    from nimblepy.cli.sql import run_sql

    run_sql(file, query, parameters(param), output_format(json, csv), explain=explain)


@app.command()
def diff(
    old: RowsArgument,
    new: Annotated[str, typer.Argument(metavar="FILE", help="What it is compared with.")],
    on: Annotated[
        str | None, typer.Option("--on", help="Columns of a unique key: a,b. Default: cluster key.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", "-c", help="Columns to compare: a,b. Default: all.")
    ] = None,
    limit: LimitOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Print rows that were removed, added or changed, by key; exit with
    status 1 if there are any.
    """
    from nimblepy.cli.compare import run_diff
    from nimblepy.cli.output import output_format

    if run_diff(old, new, on, columns, limit, output_format(json, csv)):
        raise typer.Exit(1)


@app.command()
def merge(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Nimble files, directories of them, tables."),
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="The file to write: path or URI.")],
    cluster_by: Annotated[
        str | None,
        typer.Option(help="Another key than theirs: 'a, b desc nulls first'"),
    ] = None,
    unique: Annotated[
        bool | None,
        typer.Option("--unique/--no-unique", help="Refuse a key twice. Default: as they do."),
    ] = None,
    compression: Annotated[str, typer.Option(help="balanced, fast or compact.")] = "balanced",
    overwrite: Annotated[bool, typer.Option(help="Replace an existing target.")] = False,
    json: JsonOption = False,
) -> None:
    """Merge the rows of several sources into one file, with the key and
    the indexes of the first.
    """
    from nimblepy.cli.convert import run_merge

    run_merge(
        sources,
        output,
        cluster_by=cluster_by,
        unique=unique,
        compression=compression,
        overwrite=overwrite,
        as_json=json,
    )


@app.command("add-index")
def add_index(
    file: FileArgument,
    hash_index: Annotated[
        list[str] | None, typer.Option(help="Columns of a hash index: a,b. Repeatable.")
    ] = None,
    sorted_index: Annotated[
        list[str] | None, typer.Option(help="Columns of a sorted index: 'a, b desc'. Repeatable.")
    ] = None,
    output: Annotated[
        str | None, typer.Option(help="The new file. Default: it takes the old one's place.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Add indexes to a file without encoding its rows again."""
    from nimblepy.cli.convert import run_add_index

    run_add_index(file, hash_index or [], sorted_index or [], output, as_json=json)


@app.command("drop-index")
def drop_index(
    file: FileArgument,
    columns: Annotated[
        str, typer.Argument(metavar="COLUMNS", help="Columns of the index, in order: a,b.")
    ],
    output: Annotated[
        str | None, typer.Option(help="The new file. Default: it takes the old one's place.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Drop the secondary indexes on these columns, without encoding rows again."""
    from nimblepy.cli.convert import run_drop_index

    run_drop_index(file, columns, output, as_json=json)


@app.command()
def advise(
    file: RowsArgument,
    filter: Annotated[
        list[str] | None,
        typer.Option("--filter", "-f", help='A filter of the workload: "x > 3". Repeatable.'),
    ] = None,
    param: ParamOption = None,
    on: Annotated[
        list[str] | None,
        typer.Option("--on", help="Columns that rows are looked up by: a,b. Repeatable."),
    ] = None,
    log: Annotated[
        str | None, typer.Option(help="A log that nimblepy.open(..., record=LOG) wrote.")
    ] = None,
    columns: ColumnsOption = None,
    json: JsonOption = False,
) -> None:
    """Print which indexes would pay for these queries, and which the file does not need."""
    from nimblepy.cli.advise import run_advise
    from nimblepy.cli.query import parameters

    run_advise(file, filter or [], parameters(param), on or [], log, columns, as_json=json)


tables = typer.Typer(help="Tables in a catalog: a directory, or a URI.", no_args_is_help=True)
app.add_typer(tables, name="table")

CatalogArgument = Annotated[
    str, typer.Argument(metavar="CATALOG", help="Directory or URI of a catalog.")
]
TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="CATALOG#NAMESPACE.NAME, as in lake#shop.events")
]
tables.command("lookup", cls=_TakesNumbers)(lookup)
tables.command("scan", cls=_TakesFilter)(scan)


@tables.command("ls")
def table_ls(catalog: CatalogArgument, json: JsonOption = False, csv: CsvOption = False) -> None:
    """Print the names of all tables."""
    from nimblepy.cli.output import output_format
    from nimblepy.cli.table import print_tables

    print_tables(catalog, output_format(json, csv))


@tables.command("show")
def table_show(table: TableArgument, json: JsonOption = False) -> None:
    """Print the rows, files, keys, partitions and columns of a table."""
    from nimblepy.cli.table import show_table

    show_table(table, as_json=json)


@tables.command("history")
def table_history(
    table: TableArgument,
    columns: ColumnsOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Print every snapshot: time, operation, and number of rows and files."""
    from nimblepy.cli.output import output_format
    from nimblepy.cli.table import print_history

    print_history(table, columns, output_format(json, csv))


@tables.command("files")
def table_files(
    table: TableArgument,
    columns: ColumnsOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Print the data files of the newest snapshot."""
    from nimblepy.cli.output import output_format
    from nimblepy.cli.table import print_files

    print_files(table, columns, output_format(json, csv))


@tables.command("diff", cls=_TakesNumbers)
def table_diff(
    table: TableArgument,
    since: Annotated[str, typer.Argument(help="A snapshot's id, a tag, or: none.")],
    until: Annotated[
        str | None, typer.Argument(help="A snapshot's id or a tag. Default: the newest.")
    ] = None,
    columns: ColumnsOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Print the rows that were inserted, updated and deleted between two snapshots."""
    from nimblepy.cli.output import output_format
    from nimblepy.cli.table import print_changes

    print_changes(table, since, until, columns, output_format(json, csv))


@tables.command("compact")
def table_compact(
    table: TableArgument,
    filter: Annotated[
        str | None, typer.Option("--filter", "-f", help="Only files that may have such rows.")
    ] = None,
    target_mb: Annotated[int, typer.Option(min=1, help="MiB of a new file.")] = 256,
    everything: Annotated[
        bool, typer.Option("--all", help="All files, not only those that need it.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Rewrite many small files as fewer, larger ones, without deleted rows."""
    from nimblepy.cli.table import run_compact

    run_compact(table, filter, target_mb << 20, not everything, as_json=json)


@tables.command("layout")
def table_layout(
    table: TableArgument,
    plot: Annotated[
        str | None, typer.Option(help="File for a picture: .svg, or .html for a page.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", "-c", help="Of the picture: a,b.")
    ] = None,
) -> None:
    """Print or draw which rows share a file."""
    from nimblepy.cli.table import show_layout

    show_layout(table, columns, plot)


@tables.command("expire")
def table_expire(
    table: TableArgument,
    keep: Annotated[int | None, typer.Option(min=1, help="Snapshots that stay.")] = None,
    older_than: Annotated[str | None, typer.Option(help="Only older ones: 12h, 5d.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Remove old snapshots, and the files that only they reference."""
    from nimblepy.cli.table import run_expire

    run_expire(table, keep, older_than, dry_run, as_json=json)


@tables.command("health")
def table_health(
    table: TableArgument,
    plot: Annotated[
        str | None, typer.Option(help="Draw it as well: a file that ends in .svg or .html.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print the health of a table: its files, metadata, and advice."""
    from nimblepy.cli.table import show_health

    show_health(table, plot, as_json=json)


@tables.command("analyze")
def table_analyze(
    table: TableArgument,
    columns: Annotated[str | None, typer.Option("--columns", "-c", help="Only these: a,b.")] = None,
    json: JsonOption = False,
) -> None:
    """Estimate the number of distinct values of columns, and store it with the table."""
    from nimblepy.cli.table import run_analyze

    run_analyze(table, columns, as_json=json)


@tables.command("remove-orphans")
def table_orphans(
    table: TableArgument,
    older_than: Annotated[str, typer.Option(help="Only files older than this: 12h, 5d.")] = "3d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Remove files below the table that no snapshot references."""
    from nimblepy.cli.table import run_orphans

    run_orphans(table, older_than, dry_run, as_json=json)


@tables.command("relocate")
def table_relocate(
    lake: Annotated[str, typer.Argument(help="A moved LAKE, or LAKE#NAMESPACE.NAME.")],
    old_root: Annotated[
        str | None, typer.Option("--from", help="Where it was, if its catalog does not know.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Rewrite the metadata of a lake that was moved, so that other engines can read it."""
    from nimblepy.cli.table import run_relocate

    run_relocate(lake, old_root, as_json=json)


def main() -> None:
    """Entry point of the ``nimble`` command."""
    app(prog_name="nimble")
