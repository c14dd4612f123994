"""The commands ``nimble table``. Imports only typer."""

from __future__ import annotations

from typing import Annotated

import typer

from nimblepy.cli.arguments import (
    NEWEST,
    CatalogArgument,
    ColumnsOption,
    CommentOption,
    DataFormatOption,
    DryRunOption,
    HashIndexOption,
    JsonOption,
    OutputFormat,
    ParamOption,
    PropertyOption,
    SortedIndexOption,
    TableArgument,
    TakesNumbers,
    VectorIndexOption,
    Version,
    YesOption,
    prints_rows,
    reads_version,
)

NewColumnsOption = Annotated[
    str, typer.Option(help="Columns that the table lacks: error, add or drop.")
]
CastOption = Annotated[
    bool, typer.Option("--cast", help="Round and truncate values that do not fit.")
]
DataArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA...", help="Files, directories or globs, as for convert; or one CATALOG#TABLE."
    ),
]
BranchOption = Annotated[str | None, typer.Option(help="The branch to write to.")]
BatchOption = Annotated[
    str | None,
    typer.Option(help="NAME=NUMBER: does nothing if the table has this or a later batch."),
]

app = typer.Typer(help="Tables in a catalog: a directory, or a URI.", no_args_is_help=True)


@app.command("ls")
@prints_rows
def table_ls(catalog: CatalogArgument, output: OutputFormat = "table") -> None:
    """Print the names of all tables."""
    from nimblepy.cli.table import print_tables

    print_tables(catalog, output)


@app.command("show")
@reads_version
def table_show(table: TableArgument, json: JsonOption = False, version: Version = NEWEST) -> None:
    """Print the rows, files, keys, partitions and columns of a table."""
    from nimblepy.cli.table import show_table

    show_table(table, version, as_json=json)


@app.command("history")
@prints_rows
def table_history(
    table: TableArgument,
    columns: ColumnsOption = None,
    output: OutputFormat = "table",
) -> None:
    """Print every snapshot: time, operation, changed rows, tags and branches."""
    from nimblepy.cli.table import print_history

    print_history(table, columns, output)


@app.command("partitions")
@reads_version
@prints_rows
def table_partitions(
    table: TableArgument,
    columns: ColumnsOption = None,
    output: OutputFormat = "table",
    version: Version = NEWEST,
) -> None:
    """Print the partitions of a snapshot, with their files, rows and bytes."""
    from nimblepy.cli.table import print_partitions

    print_partitions(table, version, columns, output)


@app.command("files")
@reads_version
@prints_rows
def table_files(
    table: TableArgument,
    columns: ColumnsOption = None,
    output: OutputFormat = "table",
    version: Version = NEWEST,
) -> None:
    """Print the data files of a snapshot."""
    from nimblepy.cli.table import print_files

    print_files(table, version, columns, output)


@app.command("diff", cls=TakesNumbers)
@prints_rows
def table_diff(
    table: TableArgument,
    since: Annotated[str, typer.Argument(help="A snapshot's id, a tag, a branch, or: none.")],
    until: Annotated[
        str | None, typer.Argument(help="A snapshot's id, a tag or a branch. Default: the newest.")
    ] = None,
    columns: ColumnsOption = None,
    output: OutputFormat = "table",
) -> None:
    """Print the rows that were inserted, updated and deleted between two snapshots."""
    from nimblepy.cli.table import print_changes

    print_changes(table, since, until, columns, output)


@app.command("compact")
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


@app.command("layout")
@reads_version
def table_layout(
    table: TableArgument,
    plot: Annotated[
        str | None, typer.Option(help="File for a plot: .svg, or .html for a page.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", "-c", help="Columns to plot: a,b.")
    ] = None,
    version: Version = NEWEST,
) -> None:
    """Print or draw which rows share a file."""
    from nimblepy.cli.table import show_layout

    show_layout(table, version, columns, plot)


@app.command("expire")
def table_expire(
    table: TableArgument,
    keep: Annotated[int | None, typer.Option(min=1, help="Number of snapshots to keep.")] = None,
    older_than: Annotated[str | None, typer.Option(help="Only older snapshots: 12h, 5d.")] = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Remove old snapshots, and the files that only they reference."""
    from nimblepy.cli.table import run_expire

    run_expire(table, keep, older_than, dry_run, as_json=json)


@app.command("health")
def table_health(
    table: TableArgument,
    plot: Annotated[
        str | None, typer.Option(help="File for a plot of the health: .svg or .html.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print the health of a table: its files, metadata, and advice.

    Exits with status 1 if there is advice.
    """
    from nimblepy.cli.table import show_health

    if show_health(table, plot, as_json=json):
        raise typer.Exit(1)


@app.command("analyze")
def table_analyze(
    table: TableArgument,
    columns: Annotated[str | None, typer.Option("--columns", "-c", help="Only these: a,b.")] = None,
    json: JsonOption = False,
) -> None:
    """Estimate the number of distinct values of columns, and store it with the table."""
    from nimblepy.cli.table import run_analyze

    run_analyze(table, columns, as_json=json)


@app.command("remove-orphans")
def table_orphans(
    table: TableArgument,
    older_than: Annotated[str, typer.Option(help="Only files older than this: 12h, 5d.")] = "3d",
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Remove files below the table that no snapshot references."""
    from nimblepy.cli.table import run_orphans

    run_orphans(table, older_than, dry_run, as_json=json)


@app.command("relocate")
def table_relocate(
    lake: Annotated[str, typer.Argument(help="A moved LAKE, or LAKE#NAMESPACE.NAME.")],
    old_root: Annotated[
        str | None,
        typer.Option("--from", help="Former location, if the catalog does not record it."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Rewrite the metadata of a lake that was moved, so that other engines can read it."""
    from nimblepy.cli.table import run_relocate

    run_relocate(lake, old_root, as_json=json)


@app.command("create")
def table_create(
    table: TableArgument,
    data: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DATA]...", help="The first rows: files, as for convert."),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(help="Columns of an empty table: 'id bigint not null, at timestamp'"),
    ] = None,
    primary_key: Annotated[str | None, typer.Option(help="Columns of a unique key: a,b")] = None,
    cluster_by: Annotated[
        str | None, typer.Option(help="Order of rows: 'a, b desc'. Default: the primary key.")
    ] = None,
    partition_by: Annotated[
        list[str] | None, typer.Option(help="A column or day(ts), bucket(16, id). Repeatable.")
    ] = None,
    hash_index: HashIndexOption = None,
    sorted_index: SortedIndexOption = None,
    vector_index: VectorIndexOption = None,
    data_format: Annotated[
        str, typer.Option(help="Format of the table's files: nimble or parquet.")
    ] = "nimble",
    format_version: Annotated[
        int, typer.Option(help="Iceberg format version: 2, or 3, which fewer engines read.")
    ] = 2,
    property: PropertyOption = None,
    comment: CommentOption = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing if the table exists.")
    ] = False,
    format: DataFormatOption = None,
    json: JsonOption = False,
) -> None:
    """Create a table from files, or an empty one; and the catalog if its directory is new."""
    from nimblepy.cli.table_writes import run_create

    run_create(
        table,
        data or [],
        schema,
        format,
        primary_key=primary_key,
        cluster_by=cluster_by,
        partition_by=partition_by or [],
        hash_indexes=hash_index or [],
        sorted_indexes=sorted_index or [],
        vector_indexes=vector_index or [],
        data_format=data_format,
        format_version=format_version,
        properties=property or [],
        comment=comment,
        if_not_exists=if_not_exists,
        as_json=json,
    )


@app.command("append")
def table_append(
    table: TableArgument,
    data: DataArgument,
    branch: BranchOption = None,
    format: DataFormatOption = None,
    cast: CastOption = False,
    new_columns: NewColumnsOption = "error",
    presorted: Annotated[
        bool, typer.Option("--presorted", help="Rows are in key order already (checked).")
    ] = False,
    batch: BatchOption = None,
    json: JsonOption = False,
) -> None:
    """Add the rows of files, in one commit."""
    from nimblepy.cli.table_writes import run_append

    run_append(
        table,
        branch,
        data,
        format,
        as_json=json,
        cast=cast,
        new_columns=new_columns,
        presorted=presorted,
        batch=batch,
    )


@app.command("upsert")
def table_upsert(
    table: TableArgument,
    data: DataArgument,
    branch: BranchOption = None,
    format: DataFormatOption = None,
    update: Annotated[
        str | None, typer.Option(help="Columns to update in existing rows: a,b. Default: all.")
    ] = None,
    duplicates: Annotated[
        str, typer.Option(help="If a key occurs twice in the data: error, or keep the last.")
    ] = "error",
    cast: CastOption = False,
    new_columns: NewColumnsOption = "error",
    batch: BatchOption = None,
    json: JsonOption = False,
) -> None:
    """Insert rows with new primary keys, and replace rows whose keys exist, in one commit."""
    from nimblepy.cli.table_writes import run_upsert

    run_upsert(
        table,
        branch,
        data,
        format,
        update,
        as_json=json,
        duplicates=duplicates,
        cast=cast,
        new_columns=new_columns,
        batch=batch,
    )


@app.command("delete")
def table_delete(
    table: TableArgument,
    filter: Annotated[str, typer.Option("--filter", "-f", help='Rows to delete: "id < 9".')],
    param: ParamOption = None,
    branch: BranchOption = None,
    json: JsonOption = False,
) -> None:
    """Delete the rows that pass a filter, in one commit."""
    from nimblepy.cli.table_writes import run_delete

    run_delete(table, branch, filter, param, as_json=json)


@app.command("alter")
def table_alter(
    table: TableArgument,
    add: Annotated[
        list[str] | None, typer.Option(help="A new column: 'price double'. Repeatable.")
    ] = None,
    rename: Annotated[list[str] | None, typer.Option(help="OLD=NEW. Repeatable.")] = None,
    widen: Annotated[
        list[str] | None, typer.Option(help="A wider type: 'id bigint'. Repeatable.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column. Repeatable.")] = None,
    partition_by: Annotated[
        list[str] | None,
        typer.Option(help="Partitions of new files: day(ts), or none. Repeatable."),
    ] = None,
    property: PropertyOption = None,
    unset: Annotated[
        list[str] | None, typer.Option(help="A property to remove. Repeatable.")
    ] = None,
    doc: Annotated[
        list[str] | None, typer.Option(help="What a column means: COLUMN=TEXT. Repeatable.")
    ] = None,
    comment: CommentOption = None,
    json: JsonOption = False,
) -> None:
    """Change columns, partitions and properties, in one commit."""
    from nimblepy.cli.table_writes import run_alter

    run_alter(
        table,
        add=add or [],
        rename=rename or [],
        widen=widen or [],
        drop=drop or [],
        partition_by=partition_by or [],
        properties=property or [],
        unset=unset or [],
        docs=doc or [],
        comment=comment,
        as_json=json,
    )


@app.command("tag")
@reads_version
def table_tag(
    table: TableArgument,
    name: Annotated[str | None, typer.Argument(help="Default: print all tags.")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Remove the tag.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Move an existing tag.")] = False,
    version: Version = NEWEST,
) -> None:
    """Name a snapshot, so that it does not expire. Default: the newest one."""
    from nimblepy.cli.table_writes import run_reference

    run_reference(table, version, "tag", name, drop=drop, replace=replace)


@app.command("branch")
@reads_version
def table_branch(
    table: TableArgument,
    name: Annotated[str | None, typer.Argument(help="Default: print all branches.")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Remove the branch.")] = False,
    version: Version = NEWEST,
) -> None:
    """Begin a branch at a snapshot. Default: the newest one."""
    from nimblepy.cli.table_writes import run_reference

    run_reference(table, version, "branch", name, drop=drop)


@app.command("fast-forward")
def table_fast_forward(
    table: TableArgument,
    branch: Annotated[str, typer.Argument(help="The branch to move, such as main.")],
    to: Annotated[str, typer.Option(help="The branch or tag that is ahead of it.")],
) -> None:
    """Publish a branch: move another branch forward to its newest snapshot."""
    from nimblepy.cli.table_writes import run_fast_forward

    run_fast_forward(table, branch, to)


@app.command("rollback")
@reads_version
def table_rollback(
    table: TableArgument,
    to: Annotated[
        str | None, typer.Argument(metavar="SNAPSHOT", help="A snapshot's id or a tag.")
    ] = None,
    yes: YesOption = False,
    version: Version = NEWEST,
) -> None:
    """Make an earlier snapshot the newest again."""
    from nimblepy.cli.table_writes import run_rollback

    run_rollback(table, to, version, yes=yes)


@app.command("register")
def table_register(
    table: TableArgument,
    metadata_file: Annotated[
        str, typer.Argument(metavar="METADATA", help="A metadata file of an Iceberg table.")
    ],
) -> None:
    """Register an existing Iceberg table, without copying anything."""
    from nimblepy.cli.table_writes import run_register

    run_register(table, metadata_file)


@app.command("publish-delta")
def table_publish_delta(
    table: TableArgument,
    stop: Annotated[
        bool, typer.Option("--stop", help="Publish once more, then stop; keeps the log.")
    ] = False,
) -> None:
    """Publish a Parquet table as Delta. Later commits keep it up to date."""
    from nimblepy.cli.table_writes import run_publish_delta

    run_publish_delta(table, keep=not stop)


@app.command("drop")
def table_drop(
    table: TableArgument,
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove all files of all its snapshots too.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Drop a table."""
    from nimblepy.cli.table_writes import run_drop

    run_drop(table, purge=purge, yes=yes)


@app.command("optimize")
def table_optimize(
    table: TableArgument,
    budget_mb: Annotated[
        int | None, typer.Option(min=1, help="Rewrite at most so many MiB of an OTree.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Do what `nimble table health` advises."""
    from nimblepy.cli.table import run_optimize

    run_optimize(table, None if budget_mb is None else budget_mb << 20, as_json=json)


@app.command("rewrite-manifests")
def table_rewrite_manifests(
    table: TableArgument,
    whole: Annotated[
        bool, typer.Option("--whole", help="Write the plan index for all files again.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Rewrite metadata so that the table is planned faster. No data file changes."""
    from nimblepy.cli.table import run_rewrite_manifests

    run_rewrite_manifests(table, whole=whole, as_json=json)
