"""Arguments and options that several commands share. Imports only typer."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, TypeAlias

import typer
from typer.core import TyperCommand

OutputFormat: TypeAlias = Literal["table", "json", "csv"]


class TakesNumbers(TyperCommand):
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


class TakesFilter(TyperCommand):
    """Explains how to pass a condition if there is one argument too many."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.allow_extra_args = True
        rest: list[str] = super().parse_args(ctx, args)
        if rest:
            ctx.fail(f"one argument too many: {rest[0]!r}; a condition is given as --filter")
        return rest


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


CatalogArgument = Annotated[
    str, typer.Argument(metavar="CATALOG", help="Directory or URI of a catalog.")
]
TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="CATALOG#NAMESPACE.NAME, as in lake#shop.events")
]
HashIndexOption = Annotated[
    list[str] | None, typer.Option(help="Columns of a hash index: a,b. Repeatable.")
]
SortedIndexOption = Annotated[
    list[str] | None, typer.Option(help="Columns of a sorted index: 'a, b desc'. Repeatable.")
]
VectorIndexOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of a vector index, and its metric: 'embedding cosine'. Default: l2. "
        "Repeatable."
    ),
]
CompressionOption = Annotated[str, typer.Option(help="balanced, fast or compact.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace an existing target.")]
DataFormatOption = Annotated[
    str | None,
    typer.Option(
        "--format", help="parquet, csv, tsv, json, arrow or nimble. Default: found from the files."
    ),
]
NewFileOption = Annotated[
    str | None,
    typer.Option("--output", help="The new file. Default: replace the old file."),
]
PropertyOption = Annotated[
    list[str] | None, typer.Option("--property", help="A property: NAME=VALUE. Repeatable.")
]
CommentOption = Annotated[str | None, typer.Option("--comment", help="What the table is.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Remove nothing.")]
PollOption = Annotated[
    float, typer.Option("--poll", help="Seconds between checks for a new snapshot.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The version of a table that a command reads. Without values, the newest one of ``main``.

    Attributes:
        time: a time in ISO 8601, or an age such as ``"2h"``.
    """

    tag: str | None = None
    snapshot: int | None = None
    time: str | None = None
    branch: str | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given."""
        return {name: value for name, value in asdict(self).items() if value is not None}


NEWEST = Version()


def reads_version(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of a :class:`Version`, and passes them to ``command`` as ``version``."""
    options = {
        "tag": (str, "Read a table as of this tag."),
        "snapshot": (int, "Read a table as of this snapshot."),
        "time": (str, "Read a table as of this time: 2026-11-24T06:00+00:00, or 2h before now."),
        "branch": (str, "Read a branch of a table."),
    }
    annotations: dict[str, Any] = {
        name: Annotated[kind | None, typer.Option(f"--{name}", help=text)]
        for name, (kind, text) in options.items()
    }
    return _with_options(command, "version", annotations, None, lambda **given: Version(**given))


def prints_rows(command: Callable[..., None]) -> Callable[..., None]:
    """Adds ``--json`` and ``--csv``, and passes their choice to ``command`` as ``output``."""
    annotations = {"json": JsonOption, "csv": CsvOption}
    return _with_options(command, "output", annotations, False, _output_format)


def _output_format(json: bool, csv: bool) -> OutputFormat:
    if json and csv:
        from nimblepy.errors import InvalidArgumentError

        raise InvalidArgumentError("pass --json or --csv, not both")
    return "json" if json else "csv" if csv else "table"


def _with_options(
    command: Callable[..., None],
    parameter: str,
    annotations: dict[str, Any],
    default: Any,
    value_of: Callable[..., Any],
) -> Callable[..., None]:
    """Replaces a parameter of ``command`` by options. ``value_of`` computes it from them."""

    @functools.wraps(command)
    def with_options(**arguments: Any) -> None:
        given = {name: arguments.pop(name, default) for name in annotations}
        command(**arguments, **{parameter: value_of(**given)})

    signature = inspect.signature(command, eval_str=True)
    kept = [p for p in signature.parameters.values() if p.name != parameter]
    options = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
        for name, annotation in annotations.items()
    ]
    with_more = signature.replace(parameters=[*kept, *options])
    with_options.__signature__ = with_more  # type: ignore[attr-defined]  # typer reads it
    return with_options
