"""The ``nimble`` command: inspects, writes and queries nimble files and tables.

Imports only typer, so that ``nimble --help`` is fast. Commands import the rest when they run. Rows
are printed to standard output; progress, notes and errors to standard error.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nimblepy.cli import table_commands
from nimblepy.cli.arguments import (
    NEWEST,
    ColumnsOption,
    CompressionOption,
    DataFormatOption,
    ExplainOption,
    FileArgument,
    HashIndexOption,
    JsonOption,
    LimitOption,
    NewFileOption,
    OnOption,
    OutputFormat,
    OverwriteOption,
    ParamOption,
    PollOption,
    RowsArgument,
    SortedIndexOption,
    TakesFilter,
    TakesNumbers,
    VectorIndexOption,
    Version,
    prints_rows,
    reads_version,
)


class _Group(TyperGroup):
    """Prints errors that a user can act on in one line, and exits with status 2."""

    def invoke(self, ctx: Any) -> Any:
        from nimblepy.cli.errors import one_line_errors

        with one_line_errors():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Group,
    help="Columnar files with built-in indexes: inspect, convert, look up, scan and verify them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


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


def _exit_unless(ok: bool) -> None:
    """Exits with status 1 if a command did not find rows, or found damage or differences."""
    if not ok:
        raise typer.Exit(1)


@app.command()
@reads_version
def inspect(
    file: RowsArgument,
    depth: Annotated[
        int, typer.Option("--depth", "-d", min=1, help="Levels of the layout tree to print.")
    ] = 3,
    json: JsonOption = False,
    version: Version = NEWEST,
) -> None:
    """Print what a file contains: stripes, columns, encodings, indexes and their bytes."""
    from nimblepy.cli.inspect import print_inspection

    print_inspection(file, version, depth=depth, as_json=json)


@app.command()
@reads_version
def schema(file: RowsArgument, json: JsonOption = False, version: Version = NEWEST) -> None:
    """Print columns with their types, the cluster key and the indexes."""
    from nimblepy.cli.inspect import print_schema

    print_schema(file, version, as_json=json)


@app.command()
@reads_version
@prints_rows
def stats(file: RowsArgument, output: OutputFormat = "table", version: Version = NEWEST) -> None:
    """Print bytes and encodings of each column over the whole file."""
    from nimblepy.cli.inspect import print_stats

    print_stats(file, version, output)


@app.command()
@reads_version
def verify(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Nimble files, directories of them, CATALOG#TABLE."),
    ],
    json: JsonOption = False,
    version: Version = NEWEST,
) -> None:
    """Check every checksum and invariant; exit with status 1 if a file is damaged."""
    from nimblepy.cli.inspect import verify_files

    _exit_unless(verify_files(files, version, as_json=json))


@app.command()
@reads_version
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
    hash_index: HashIndexOption = None,
    sorted_index: SortedIndexOption = None,
    vector_index: VectorIndexOption = None,
    columns: Annotated[
        str | None, typer.Option("--columns", "-c", help="Columns to keep: a,b")
    ] = None,
    compression: CompressionOption = "balanced",
    format: DataFormatOption = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
    version: Version = NEWEST,
) -> None:
    """Write Parquet, CSV, JSON lines, Arrow or a table as one nimble file, in constant memory."""
    from nimblepy.cli.convert import run_convert

    run_convert(
        source,
        target,
        version,
        cluster_by=cluster_by,
        hash_indexes=hash_index or (),
        sorted_indexes=sorted_index or (),
        vector_indexes=vector_index or (),
        columns=columns,
        compression=compression,
        overwrite=overwrite,
        as_json=json,
        unique=unique,
        presorted=presorted,
        format=format,
    )


@app.command(cls=TakesNumbers)
@reads_version
@prints_rows
def lookup(
    file: RowsArgument,
    keys: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...",
            help=(
                "Keys of the primary key, or of the cluster key if there is none; a composite one "
                "as 'x,7', and in it text with a comma as '\"eu, de\",3'."
            ),
        ),
    ],
    on: OnOption = None,
    columns: ColumnsOption = None,
    explain: ExplainOption = False,
    output: OutputFormat = "table",
    version: Version = NEWEST,
) -> None:
    """Print the rows with the given keys, through an index."""
    from nimblepy.cli.query import Query, run_lookup

    query = Query(
        version=version,
        on=on,
        columns=columns,
        explain=explain,
        output=output,
    )
    _exit_unless(run_lookup(file, keys, query))


@app.command(cls=TakesNumbers)
@reads_version
@prints_rows
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
    reverse: Annotated[bool, typer.Option(help="Begin at the end of the range.")] = False,
    explain: ExplainOption = False,
    output: OutputFormat = "table",
    version: Version = NEWEST,
) -> None:
    """Print the rows between two keys, or with a key prefix, in key order."""
    from nimblepy.cli.query import Bounds, Query, run_range

    query = Query(
        version=version,
        on=on,
        columns=columns,
        limit=limit,
        explain=explain,
        output=output,
    )
    bounds = Bounds(
        lower=lower,
        upper=upper,
        inclusive=inclusive,  # type: ignore[arg-type]  # checked where it is used
        prefix=prefix,
        reverse=reverse,
    )
    _exit_unless(run_range(file, bounds, query))


@app.command(cls=TakesFilter)
@reads_version
@prints_rows
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
    output: OutputFormat = "table",
    version: Version = NEWEST,
) -> None:
    """Print rows in file order: all rows, or the rows that pass a filter."""
    from nimblepy.cli.query import Query, parameters, run_scan

    query = Query(
        version=version,
        columns=columns,
        limit=limit,
        explain=explain,
        output=output,
    )
    _exit_unless(run_scan(file, filter, parameters(param), query, count_only=count))


@app.command(cls=TakesNumbers)
@reads_version
@prints_rows
def nearest(
    file: RowsArgument,
    vector: Annotated[
        str,
        typer.Argument(
            metavar="VECTOR", help="Numbers: 0.5,-1,2 or a JSON list; - reads them from the input."
        ),
    ],
    k: Annotated[int, typer.Option("-k", help="Number of rows.")] = 10,
    on: Annotated[str | None, typer.Option(help="The column of vectors.")] = None,
    metric: Annotated[
        str | None, typer.Option(help="l2, cosine or dot. Default: the metric of the index.")
    ] = None,
    filter: Annotated[
        str | None, typer.Option("--filter", "-f", help='SQL condition: "x > 3 AND k = 7"')
    ] = None,
    param: ParamOption = None,
    recall: Annotated[
        float, typer.Option(help="Share of the nearest rows to find with an index.")
    ] = 0.95,
    exact: Annotated[bool, typer.Option("--exact", help="Compare all rows.")] = False,
    columns: ColumnsOption = None,
    explain: ExplainOption = False,
    output: OutputFormat = "table",
    version: Version = NEWEST,
) -> None:
    """Print the rows whose vectors are nearest to a vector, nearest first."""
    from nimblepy.cli.query import Query, parameters, run_nearest

    query = Query(version=version, on=on, columns=columns, limit=k, explain=explain, output=output)
    arguments = {
        "metric": metric,
        "filter": filter,
        "params": parameters(param),
        "recall": recall,
        "exact": exact,
    }
    _exit_unless(run_nearest(file, vector, k, arguments, query))


@app.command()
@reads_version
@prints_rows
def sql(
    file: RowsArgument,
    query: Annotated[
        str, typer.Argument(help='"SELECT a, count(*) FROM t WHERE b > 3 GROUP BY a"; t is FILE.')
    ],
    param: ParamOption = None,
    explain: ExplainOption = False,
    output: OutputFormat = "table",
    version: Version = NEWEST,
) -> None:
    """Print the result of a query of DuckDB over the rows, which are the view t."""
    from nimblepy.cli.query import parameters
    from nimblepy.cli.sql import run_sql

    _exit_unless(run_sql(file, version, query, parameters(param), output, explain=explain))


@app.command()
@reads_version
@prints_rows
def diff(
    old: RowsArgument,
    new: Annotated[str, typer.Argument(metavar="FILE", help="The file to compare with.")],
    on: Annotated[
        str | None, typer.Option("--on", help="Columns of a unique key: a,b. Default: cluster key.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", "-c", help="Columns to compare: a,b. Default: all.")
    ] = None,
    limit: LimitOption = None,
    output: OutputFormat = "table",
    version: Version = NEWEST,
) -> None:
    """Print rows that were removed, added or changed, by key; exit with status 1 if there are any.

    The options --tag, --snapshot, --time and --branch choose the version of the first source.
    """
    from nimblepy.cli.compare import run_diff

    _exit_unless(not run_diff(old, new, on, columns, limit, output, version))


@app.command()
@reads_version
def merge(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Nimble files, directories of them, tables."),
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="The file to write: path or URI.")],
    cluster_by: Annotated[
        str | None,
        typer.Option(help="Cluster key: 'a, b desc nulls first'. Default: that of the files."),
    ] = None,
    unique: Annotated[
        bool | None,
        typer.Option(
            "--unique/--no-unique", help="Refuse duplicate keys. Default: as the files do."
        ),
    ] = None,
    compression: CompressionOption = "balanced",
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
    version: Version = NEWEST,
) -> None:
    """Merge the rows of several sources into one file, with the key and
    the indexes of the first.
    """
    from nimblepy.cli.convert import run_merge

    run_merge(
        sources,
        output,
        version,
        cluster_by=cluster_by,
        unique=unique,
        compression=compression,
        overwrite=overwrite,
        as_json=json,
    )


@app.command("add-index")
def add_index(
    file: FileArgument,
    hash_index: HashIndexOption = None,
    sorted_index: SortedIndexOption = None,
    vector_index: VectorIndexOption = None,
    output: NewFileOption = None,
    json: JsonOption = False,
) -> None:
    """Add indexes to a file without encoding its rows again."""
    from nimblepy.cli.convert import run_add_index

    run_add_index(
        file, hash_index or [], sorted_index or [], vector_index or [], output, as_json=json
    )


@app.command("drop-index")
def drop_index(
    file: FileArgument,
    columns: Annotated[
        str, typer.Argument(metavar="COLUMNS", help="Columns of the index, in order: a,b.")
    ],
    output: NewFileOption = None,
    json: JsonOption = False,
) -> None:
    """Drop the secondary indexes on these columns, without encoding rows again."""
    from nimblepy.cli.convert import run_drop_index

    run_drop_index(file, columns, output, as_json=json)


@app.command()
def serve(
    source: Annotated[
        str, typer.Argument(metavar="LAKE|FILE|DIR", help="A catalog, a file or a directory.")
    ],
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="TABLE=NAME", help="A table of the catalog. Repeatable."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="The name of a file or directory.")
    ] = None,
    unix: Annotated[
        str | None, typer.Option(metavar="PATH", help="Listen on a Unix socket.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="TCP port; 6380 without --unix, 0 for any free port.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to bind.")] = "127.0.0.1",
    token_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="The token that clients must send.")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve /healthz, /readyz and /metrics."),
    ] = None,
    poll: PollOption = 0.1,
    max_keys: Annotated[int, typer.Option(help="Most keys in one command.")] = 10_000,
    max_rows: Annotated[int, typer.Option(help="Most rows for one command.")] = 100_000,
    max_reply_bytes: Annotated[int, typer.Option(help="Most bytes in one reply.")] = 32 << 20,
    max_clients: Annotated[int, typer.Option(help="Most connections at a time.")] = 10_000,
    idle_seconds: Annotated[
        int, typer.Option(help="Close connections that are idle for this long; 0: never.")
    ] = 0,
    threads: Annotated[int, typer.Option(help="Threads for connections.")] = 1,
    raw: Annotated[
        bool, typer.Option("--raw/--no-raw", help="Whether clients may get encoded blocks.")
    ] = True,
) -> None:
    """Serve rows to clients of Redis until SIGTERM or SIGINT."""
    from nimblepy.cli.serve import run_serve

    run_serve(
        source,
        tables or [],
        name,
        token_file,
        unix=unix,
        port=6380 if port is None and unix is None else port,
        host=host,
        http=http,
        poll=poll,
        max_keys=max_keys,
        max_rows=max_rows,
        max_reply_bytes=max_reply_bytes,
        max_clients=max_clients,
        idle_seconds=idle_seconds,
        threads=threads,
        raw=raw,
    )


@app.command()
def follow(
    lake: Annotated[str, typer.Argument(metavar="LAKE", help="A catalog.")],
    tables: Annotated[
        list[str], typer.Option("--table", metavar="TABLE=NAME", help="A table. Repeatable.")
    ],
    directory: Annotated[
        str | None, typer.Option("--dir", help="Where to write; LAKE/serve by default.")
    ] = None,
    poll: PollOption = 0.1,
    once: Annotated[bool, typer.Option("--once", help="Write the current state and exit.")] = False,
) -> None:
    """Write serving manifests of new snapshots until SIGTERM or SIGINT."""
    from nimblepy.cli.serve import run_follow

    run_follow(lake, tables, directory, poll=poll, once=once)


@app.command("module-path")
def module_path() -> None:
    """Print the path of the module for Redis and Valkey in this installation."""
    from nimblepy.serving.module import module_path

    typer.echo(module_path())


@app.command()
def describe(
    lake: Annotated[
        str, typer.Argument(metavar="CATALOG[#TABLE]", help="A catalog, or one of its tables.")
    ],
    check: Annotated[bool, typer.Option("--check", help="Check the claims.")] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Check the claims, and scan rows if needed.")
    ] = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="STATUS",
            help="Exit with status 1 if a claim is contradicted (the default), suspect, overdue "
            "or unchecked. Every choice includes contradicted; unchecked includes all four. "
            "Repeatable.",
        ),
    ] = None,
    import_file: Annotated[
        str | None,
        typer.Option("--import", metavar="FILE", help="Store the claims of an Ossie document."),
    ] = None,
    allow_contradicted: Annotated[
        bool, typer.Option("--allow-contradicted", help="Store claims that the rows contradict.")
    ] = False,
    export: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--export",
            metavar="FORMAT DIR",
            help="Write the claims as okf, ossie, odcs or labels into a directory.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print the claims about tables and columns, or check them; exit with status 1 on findings."""
    from nimblepy.cli.describe import run_describe, run_export, run_import

    if import_file is not None:
        run_import(lake, import_file, allow_contradicted=allow_contradicted, as_json=json)
        return
    if export is not None:
        run_export(lake, *export)
        return
    _exit_unless(not run_describe(lake, check=check, deep=deep, fail_on=fail_on, as_json=json))


@app.command()
def mcp(
    lake: Annotated[str, typer.Argument(metavar="CATALOG", help="A catalog of tables.")],
    http: Annotated[
        str | None,
        typer.Option(
            metavar="PORT",
            help="Serve HTTP at http://127.0.0.1:PORT/mcp; ADDRESS:PORT for another address. "
            "Default: standard input and output.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMESPACE", help="Show only its tables. Repeatable."),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="Clients must send its text as a bearer token. Required for other addresses "
            "than loopback.",
        ),
    ] = None,
) -> None:
    """Serve the tables to agents, read only, by the Model Context Protocol."""
    from nimblepy.cli.mcp import run_mcp

    run_mcp(lake, http, allow or [], token_file)


@app.command()
@reads_version
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
    version: Version = NEWEST,
) -> None:
    """Print which indexes would pay for these queries, and which the file does not need."""
    from nimblepy.cli.advise import run_advise
    from nimblepy.cli.query import parameters

    run_advise(file, version, filter or [], parameters(param), on or [], log, columns, as_json=json)


table_commands.app.command("lookup", cls=TakesNumbers)(lookup)
table_commands.app.command("scan", cls=TakesFilter)(scan)
app.add_typer(table_commands.app, name="table")


def main() -> None:
    """Entry point of the ``nimble`` command."""
    app(prog_name="nimble")
