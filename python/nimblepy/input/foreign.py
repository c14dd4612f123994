"""Reads files of other formats as one stream: files, directories, globs and lists of paths."""

from __future__ import annotations

import io
import os
import posixpath
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeGuard
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError
from nimblepy.input.json_integers import check_integers_of_json
from nimblepy.input.safe_json import SafeJson, refuse_other_rows
from nimblepy.input.texts import (
    Typed,
    are_long_integers,
    exact_floats,
    first_names,
    has_leading_zero,
    inexact_integer,
    inexact_message,
    is_of_digits,
    is_of_text,
    keeps_json,
    largest_float,
    merged_type,
    of_json,
    of_text,
    only_nulls,
    read_type,
    rows_of_json,
    whole_numbers,
    without_times,
)
from nimblepy.io.core_file import open_core_file
from nimblepy.io.location import is_uri
from nimblepy.schema.columns import FILE_OF_COLUMN, unknown_column_message
from nimblepy.schema.conform import common_schema, conform, with_missing
from nimblepy.schema.kinds import is_text
from nimblepy.schema.reshape import UnfitError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

Format: TypeAlias = Literal["parquet", "csv", "tsv", "json", "arrow", "nimble"]
Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

# Number of rows per batch, and size of the cache, for reading a nimble file.
_BATCH_ROWS = 1 << 16
_CACHE_BYTES = 256 << 20

_FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow",
    ".nimble": "nimble",
}
_COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4")
# The first block determines the types of CSV and JSON columns, so it is large.
_BLOCK_BYTES = 16 << 20
# JSON has types for each value, and pyarrow refuses later values of other types.
_JSON_BLOCK_BYTES = 128 << 20
# From this magnitude on, floats do not have all whole numbers.
_INEXACT = 2**53
# Texts that mean null in CSV columns of numbers and times. NaN is a number, not a null.
_NO_NUMBERS = ["", "NA", "N/A", "n/a", "NULL", "Null", "null", "None"]
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class CountedReader(NamedTuple):
    """A stream with a known number of rows."""

    reader: pa.RecordBatchReader
    num_rows: int | None


class _Types(NamedTuple):
    """The types in which the text of a file is read.

    Attributes:
        cast: round or truncate values that a type cannot represent.
        inferred: columns whose types come from the first blocks of the files.
    """

    schema: pa.Schema
    cast: bool
    inferred: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Part:
    """One file, or a directory of nimble files.

    Attributes:
        partition: columns in the path and their values, as in ``year=2024/part.parquet``.
    """

    store: FileSystem
    path: str
    name: str
    format: Format
    partition: tuple[tuple[str, str], ...] = ()


class _Opened(NamedTuple):
    """A file that is open.

    Attributes:
        codes: columns whose texts look like numbers that no number type keeps: with leading zeros,
            or with too many digits.
    """

    schema: pa.Schema
    num_rows: int | None
    batches: Iterable[pa.RecordBatch]
    codes: frozenset[str] = frozenset()


def is_paths(data: object) -> TypeGuard[Paths]:
    """Returns whether ``data`` is a path, or a list of paths only."""
    if isinstance(data, (list, tuple)):
        return bool(data) and all(isinstance(item, (str, os.PathLike)) for item in data)
    return isinstance(data, (str, os.PathLike))


def open_files(
    paths: Paths,
    *,
    format: Format | None = None,
    columns: Sequence[str] | None = None,
    target: pa.Schema | None = None,
    cast: bool = False,
) -> CountedReader:
    """Returns the rows of files as one stream, and the number of rows if the formats store it.

    Args:
        paths: a file, a directory, a glob (``*``, ``?``, ``[...]``, ``**``), or a list of these.
            The files of a directory are read in the order of their paths. Names that begin with
            ``_`` or ``.`` are ignored. Directory names such as ``year=2024`` become columns.
        format: format of all files; ``None`` detects it from the first bytes or the name.
        columns: columns to read, in this order; ``None`` means all.
        target: schema with the types in which to read columns of CSV and JSON files, if possible.
        cast: the caller will round values. Decimals are read as floats.

    Raises:
        InvalidArgumentError: the format or a column is unknown, there is no file, or a column has
            types without a common type.
        OSError: a file cannot be read.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    parts = [part for path in given for part in _parts_of(os.fspath(path), format)]
    if not parts:
        raise InvalidArgumentError("data: the list of paths is empty")
    given_types = None if target is None else _Types(target, cast)
    if len(parts) == 1:
        stack = ExitStack()
        try:
            opened = _open(parts[0], columns, given_types, stack)
        except BaseException:
            stack.close()
            raise
        checked = _without_nulls(parts[0], _closing(opened.batches, stack), target)
        named = _with_files(opened.schema, parts, [opened.schema], target)
        return CountedReader(
            pa.RecordBatchReader.from_batches(named, checked),
            opened.num_rows,
        )
    schemas, counts = [], []
    codes: set[str] = set()
    for part in parts:
        with ExitStack() as stack:
            opened = _open(part, None, given_types, stack)
            schemas.append(opened.schema)
            counts.append(opened.num_rows)
            codes |= opened.codes
    schemas = [_with_codes(part, own, codes) for part, own in zip(parts, schemas, strict=True)]
    schema = selected(common_schema(schemas, [part.name for part in parts]), columns)
    total = None if None in counts else sum(filter(None, counts))
    inferred = frozenset(schema.names) - set(() if target is None else target.names)
    types = _Types(schema, cast, inferred)
    named = _with_files(schema, parts, schemas, target)
    rows = _chained(parts, schemas, types, target)
    return CountedReader(pa.RecordBatchReader.from_batches(named, rows), total)


def _with_files(
    schema: pa.Schema,
    parts: Sequence[_Part],
    schemas: Sequence[pa.Schema],
    target: pa.Schema | None,
) -> pa.Schema:
    """Returns the schema, in which each column that the target lacks names its first file."""
    if target is None:
        return schema
    for at, field in enumerate(schema):
        if field.name not in target.names:
            pairs = zip(parts, schemas, strict=True)
            file = next(part.name for part, own in pairs if field.name in own.names)
            metadata = {**(field.metadata or {}), FILE_OF_COLUMN: file}
            schema = schema.set(at, field.with_metadata(metadata))
    return schema


def _without_nulls(
    part: _Part, batches: Iterable[pa.RecordBatch], target: pa.Schema | None
) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a file. Refuses nulls in columns that must not have them.

    Raises:
        InvalidArgumentError: a column that the target does not allow nulls in has one.
    """
    required = () if target is None else [item.name for item in target if not item.nullable]
    first = 0
    for batch in batches:
        for name in required:
            at = batch.schema.get_field_index(name)
            if at >= 0 and batch.column(at).null_count:
                row = first + batch.column(at).is_null().index(True).as_py()
                raise InvalidArgumentError(
                    f"{part.name}: column {name!r}, row {row}: it is null, and the table does not "
                    "allow nulls in it"
                )
        first += batch.num_rows
        yield batch


def _with_codes(part: _Part, schema: pa.Schema, codes: set[str]) -> pa.Schema:
    """Returns the schema of a file, with text for columns that are codes in another file."""
    if part.format not in ("csv", "tsv"):
        return schema
    in_path = {name for name, _ in part.partition}
    return pa.schema(
        [
            field.with_type(pa.string())
            if field.name in codes - in_path
            and (pt.is_int64(field.type) or pt.is_float64(field.type))
            else field
            for field in schema
        ]
    )


def _closing(batches: Iterable[pa.RecordBatch], stack: ExitStack) -> Iterator[pa.RecordBatch]:
    with stack:
        yield from batches


def _chained(
    parts: Sequence[_Part],
    schemas: Sequence[pa.Schema],
    types: _Types,
    target: pa.Schema | None,
) -> Iterator[pa.RecordBatch]:
    schema = types.schema
    for part, own in zip(parts, schemas, strict=True):
        names = [name for name in schema.names if own.get_field_index(name) >= 0]
        with ExitStack() as stack:
            for batch in _without_nulls(part, _open(part, names, types, stack).batches, target):
                try:
                    yield conform(with_missing(batch, schema), schema, cast=True)
                except InvalidArgumentError as error:
                    raise InvalidArgumentError(f"{part.name}: {error}") from error


# ------------------------------------------------------------------ which files


def _parts_of(path: str, format: Format | None) -> list[_Part]:
    import pyarrow.fs as pafs

    if "\0" in path:
        raise InvalidArgumentError(f"path: {path!r} has a null character")
    prefix = ""
    if is_uri(path):
        begin = re.split(r"[*?\[]", path, maxsplit=1)[0]
        store, inner = pafs.FileSystem.from_uri(
            begin if begin == path else posixpath.dirname(begin)
        )
        at = path.index(inner) if inner in path else 0
        prefix, path = path[:at], inner if begin == path else path[at:]
    else:
        store = pafs.LocalFileSystem(use_mmap=True)
    kind = store.get_file_info(path).type
    if kind == pafs.FileType.Directory:
        return _in_directory(store, path, prefix, format)
    if kind == pafs.FileType.NotFound and re.search(r"[*?\[]", path):
        return _in_glob(store, path, prefix, format)
    if kind == pafs.FileType.NotFound:
        raise FileNotFoundError(2, "no such file or directory", prefix + path)
    if kind != pafs.FileType.File:
        raise InvalidArgumentError(
            f"{prefix}{path} is a device, a pipe or a socket; pass a reader to nimblepy.write, "
            "such as pyarrow.csv.open_csv(sys.stdin.buffer)"
        )
    return [_Part(store, path, prefix + path, format or _format_of(store, path, prefix + path))]


def _in_directory(store: FileSystem, root: str, prefix: str, format: Format | None) -> list[_Part]:
    paths = _files_below(store, root)
    if format == "nimble" or any(path.endswith(".nimble") for path in paths):
        paths = [path for path in paths if path.endswith(".nimble")]
        format = "nimble"
    if not paths:
        raise InvalidArgumentError(f"{prefix}{root}: the directory has no files")
    return [_part(store, root, path, prefix, format) for path in paths]


def _in_glob(store: FileSystem, pattern: str, prefix: str, format: Format | None) -> list[_Part]:
    root = posixpath.dirname(re.split(r"[*?\[]", pattern, maxsplit=1)[0])
    matches = re.compile(_regular(pattern)).fullmatch
    paths = [path for path in _files_below(store, root or ".") if matches(_unrooted(path, pattern))]
    if not paths:
        raise FileNotFoundError(2, "no file matches", prefix + pattern)
    return [_part(store, root, _unrooted(path, pattern), prefix, format) for path in paths]


def _unrooted(path: str, pattern: str) -> str:
    return path.removeprefix("./") if not pattern.startswith("./") else path


def _regular(pattern: str) -> str:
    """Returns a glob as a regular expression; ``**/`` matches any number of directories."""
    out = []
    for piece in re.findall(r"\*\*/|\*+|\?|\[[^\]]+\]|.", pattern, re.DOTALL):
        match piece:
            case "**/":
                out.append("(?:.*/)?")
            case "?":
                out.append("[^/]")
            case _ if piece.startswith("*"):
                out.append("[^/]*")
            case _ if len(piece) > 1:
                out.append(piece.replace("[!", "[^"))
            case _:
                out.append(re.escape(piece))
    return "".join(out)


def _files_below(store: FileSystem, root: str) -> list[str]:
    import pyarrow.fs as pafs

    infos = store.get_file_info(pafs.FileSelector(root, recursive=True, allow_not_found=True))
    base = root.rstrip("/") + "/"
    return sorted(
        info.path
        for info in infos
        if info.type == pafs.FileType.File
        and not any(step[0] in "._" for step in info.path.removeprefix(base).split("/"))
    )


def _part(store: FileSystem, root: str, path: str, prefix: str, format: Format | None) -> _Part:
    steps = path.removeprefix(root).split("/")[:-1]
    pairs = [step.split("=", 1) for step in steps if "=" in step]
    partition = tuple((name, unquote(value)) for name, value in pairs)
    kind = format or _format_of(store, path, prefix + path)
    return _Part(store, path, prefix + path, kind, partition)


def _format_of(store: FileSystem, path: str, name: str) -> Format:
    """Returns the format of a file, from its first bytes or its name."""
    with store.open_input_stream(path, compression=None) as file:
        start = file.read(6)
    if start[:4] == b"PAR1":
        return "parquet"
    if start == b"ARROW1":
        return "arrow"
    stem, suffix = posixpath.splitext(path.lower())
    if suffix in _COMPRESSIONS:
        suffix = posixpath.splitext(stem)[1]
    format = _FORMATS.get(suffix)
    if format is None or format == "parquet":
        expected = "; ".join(sorted(_FORMATS))
        raise InvalidArgumentError(
            f"cannot tell the format of {name!r}: it starts with {start!r}. Pass format=, or use "
            f"one of the names {expected}"
        )
    return format


# ------------------------------------------------------------------ one file


def _open(
    part: _Part, columns: Sequence[str] | None, given_types: _Types | None, stack: ExitStack
) -> _Opened:
    """Opens one file, and adds the columns in its path.

    Args:
        columns: columns of the result; ``None`` means all.
        given_types: the types of columns, for formats without types.
        stack: the stack that closes the file.
    """
    try:
        opened = _FORMAT_OPENERS[_checked(part.format)](part, columns, given_types, stack)
    except pa.ArrowInvalid as error:
        raise _unreadable(part, error) from error
    except OSError as error:
        raise _with_name(part, error) from error
    extra = [pair for pair in part.partition if opened.schema.get_field_index(pair[0]) < 0]
    batches: Iterable[pa.RecordBatch] = _read(part, opened.batches)
    schema = opened.schema
    for name, text in extra:
        value: Any = None if text == _NO_VALUE else text
        kind = _given(given_types, [name]).get(name, pa.null())
        if is_of_text(kind):
            value = _path_value(
                part, name, value, kind, cast=given_types is not None and given_types.cast
            )
        elif is_text(kind):
            value = pa.scalar(value, kind)
        else:
            is_number = re.fullmatch(r"-?(0|[1-9]\d{0,17})", text)
            kind = pa.int64() if is_number else pa.string()
            value = pa.scalar(int(text) if is_number else value, kind)
        schema = schema.append(pa.field(name, kind))
        batches = _with_constant(batches, pa.field(name, kind), value)
    if columns is not None:
        schema = selected(schema, columns)
        batches = _select(batches, schema.names)
    return _Opened(schema, opened.num_rows, batches, opened.codes)


def _path_value(
    part: _Part, name: str, text: str | None, kind: pa.DataType, *, cast: bool
) -> pa.Scalar:
    """Returns the value of a column in the path of a file, in the type of the table."""
    try:
        return of_text(pa.array([text], pa.string()), kind, cast)[0]
    except UnfitError as error:
        raise InvalidArgumentError(f"{part.name}: column {name!r}: {error.text}") from None


def _read(part: _Part, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except pa.ArrowInvalid as error:
        raise _unreadable(part, error) from error
    except OSError as error:
        raise _with_name(part, error) from error


def _with_name(part: _Part, error: OSError) -> OSError:
    """Returns an error of a decompressor with the name of the file. Other errors have it."""
    if error.errno is not None or part.name in str(error):
        return error
    return OSError(f"{part.name}: {error}; the file may be cut short, or not be compressed")


def _unreadable(part: _Part, error: pa.ArrowInvalid) -> InvalidArgumentError:
    column = re.match(r"In CSV column #(\d+): (?:Row #\d+: )?", str(error))
    if column is not None and part.format in ("csv", "tsv"):
        with suppress(pa.ArrowException, OSError), ExitStack() as stack:
            name = _open_csv(part, None, None, stack).schema.names[int(column[1])]
            why = str(error)[column.end() :]
            what = "encode the file as UTF-8" if "UTF8" in why else "correct the text"
            return InvalidArgumentError(f"{part.name}: column {name!r}: {why}; {what}")
    if part.format == "json" and "from object to array in row 0" in str(error):
        return InvalidArgumentError(
            f"{part.name}: it begins with a list; expected one object per line (JSON lines)"
        )
    if part.format == "json" and "Column() changed from object to" in str(error):
        with suppress(OSError), ExitStack() as stack:
            try:
                refuse_other_rows(_lines(part, stack), part.name)
            except InvalidArgumentError as refused:
                return refused
    return InvalidArgumentError(f"{part.name}: it cannot be read as {part.format}: {error}")


def _select(batches: Iterable[pa.RecordBatch], names: list[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select(names)


def _checked(format: str) -> str:
    if format not in _FORMAT_OPENERS:
        expected = ", ".join(_FORMAT_OPENERS)
        raise InvalidArgumentError(f"format: expected one of {expected}, got {format!r}")
    return format


def _with_constant(
    batches: Iterable[pa.RecordBatch], field: pa.Field, value: pa.Scalar
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.append_column(field, pa.repeat(value, batch.num_rows))


def selected(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Returns the requested columns of a schema, in the requested order; ``None`` means all."""
    if columns is None:
        return schema
    for name in columns:
        if schema.get_field_index(name) < 0:
            raise InvalidArgumentError(unknown_column_message(schema, name))
    return pa.schema([schema.field(name) for name in columns], metadata=schema.metadata)


def _known(schema: pa.Schema, columns: Sequence[str] | None) -> list[str] | None:
    return None if columns is None else [name for name in columns if name in schema.names]


def _open_parquet(part: _Part, columns: Any, given_types: Any, stack: ExitStack) -> _Opened:
    from pyarrow.parquet import ParquetFile

    source = stack.enter_context(part.store.open_input_file(part.path))
    file = stack.enter_context(ParquetFile(source))
    names = _known(file.schema_arrow, columns)
    # Reads one row group at a time: pyarrow cannot combine the nested dictionaries of two groups.
    batches = (
        batch
        for group in range(file.num_row_groups)
        for batch in file.iter_batches(row_groups=[group], columns=names)
    )
    return _Opened(file.schema_arrow, file.metadata.num_rows, batches)


def _open_csv(part: _Part, columns: Any, given_types: _Types | None, stack: ExitStack) -> _Opened:
    """Opens a CSV file: an empty field is null, a quoted empty field of a text is an empty text.

    pyarrow has one list of null texts for all columns. So text columns, where NA is a text, have a
    reader of their own. Both readers cut the file into the same blocks. Columns whose types are
    given are read as text, and converted. Whole numbers are text if the first block has one with a
    leading zero, such as a postal code, or one that does not fit int64.
    """
    every = _csv_reader(part, stack, {}, None, text=False)
    names = every.schema.names
    if given_types is not None and len(names) == 1 and names[0] not in given_types.schema.names:
        delimiter = "tab" if part.format == "tsv" else "','"
        other = next((mark for mark in (";", "\t", "|", ",") if mark in names[0]), None)
        if other is not None:
            raise InvalidArgumentError(
                f"{part.name}: its only column is {names[0]!r}; the delimiter of {part.format} "
                f"files is {delimiter}, not {other!r}"
            )
    if len(set(names)) < len(names):  # refused later
        return _Opened(every.schema, None, every)
    given = _given(given_types, names)
    converted = {
        name: kind for name, kind in given.items() if is_of_text(kind) or is_of_digits(kind)
    }
    kinds = {field.name: field.type for field in every.schema} | given
    numbers = [
        name
        for name in names
        if name not in given and (pt.is_int64(kinds[name]) or pt.is_float64(kinds[name]))
    ]
    codes = dict.fromkeys(_codes(part, numbers, kinds), pa.string())
    kinds |= codes
    inferred = set(names) - set(given) if given_types is None else given_types.inferred
    whole = {name for name in inferred if name in names and pt.is_int64(kinds[name])}
    floats = [name for name in names if name in inferred and pt.is_float64(kinds[name])]
    texts = [name for name in names if _has_text(kinds[name])]
    rest = [name for name in names if name not in set(texts)]
    types = dict.fromkeys(
        {*whole, *codes, *(name for name in (*converted, *texts) if name in given)}, pa.string()
    )
    tail = _Tail(stack.enter_context(part.store.open_input_stream(part.path)))
    source = stack.enter_context(pa.PythonFile(tail, mode="r"))
    readers = [_csv_reader(part, stack, types, texts, text=True, source=source)] if texts else []
    if rest:
        readers.append(_csv_reader(part, stack, types, rest, text=False))
    read = {field.name: field for reader in readers for field in reader.schema}
    schema = pa.schema([read[name] for name in names])
    cast = given_types is not None and given_types.cast
    nested = {name: k for name, k in given.items() if pt.is_nested(k)}
    typed = Typed(
        part.name,
        {name: (partial(of_text, target=k, cast=cast), k) for name, k in converted.items()}
        | {name: (partial(only_nulls, target=k), k) for name, k in nested.items()}
        | dict.fromkeys(whole, (whole_numbers, pa.int64()))
        | dict.fromkeys((name for name in floats if name in given), (exact_floats, pa.float64())),
    )
    batches = _merged(schema, readers)
    if schema.types and is_text(schema.types[-1]):
        batches = _with_closed_quotes(part, batches, tail)
    read_floats = [name for name in floats if name not in given]
    batches = _with_large_floats(
        read_floats, batches, partial(_check_csv_integers, part, read_floats)
    )
    return _Opened(typed.schema(schema), None, typed(batches), frozenset(codes))


def _codes(part: _Part, names: list[str], kinds: dict[str, pa.DataType]) -> list[str]:
    """Returns the columns whose texts in the first block would lose digits as numbers."""
    if not names:
        return []
    with ExitStack() as stack:
        reader = _csv_reader(part, stack, dict.fromkeys(names, pa.string()), names, text=False)
        first = next(iter(reader), None)
    if first is None:
        return []
    return [
        name
        for name, texts in zip(names, first.columns, strict=True)
        if (_lose_digits if pt.is_float64(kinds[name]) else has_leading_zero)(texts)
    ]


def _lose_digits(texts: pa.Array) -> bool:
    """Returns whether numbers that pyarrow infers to be floats must stay text."""
    return are_long_integers(texts) or inexact_integer(texts) >= 0


def _check_csv_integers(part: _Part, names: Sequence[str]) -> None:
    """Raises InvalidArgumentError if a column has a whole number whose digits a float loses."""
    with ExitStack() as stack:
        types = dict.fromkeys(names, pa.string())
        done = 0
        for batch in _csv_reader(part, stack, types, list(names), text=False):
            for name, texts in zip(names, batch.columns, strict=True):
                row = inexact_integer(texts)
                if row >= 0:
                    why = inexact_message(texts[row].as_py())
                    raise InvalidArgumentError(
                        f"{part.name}: column {name!r}, row {done + row}: {why}"
                    )
            done += batch.num_rows


def _with_large_floats(
    names: Sequence[str], batches: Iterable[pa.RecordBatch], check: Callable[[], None]
) -> Iterator[pa.RecordBatch]:
    """Yields the batches. Calls ``check`` once if a column has a float that may be inexact."""
    is_checked = False
    for batch in batches:
        if not is_checked and any(largest_float(batch.column(name)) >= _INEXACT for name in names):
            is_checked = True
            check()
        yield batch


def _given(given_types: _Types | None, names: Sequence[str]) -> dict[str, pa.DataType]:
    """Returns the given types of the columns of a file."""
    return (
        {}
        if given_types is None
        else {f.name: f.type for f in given_types.schema if f.name in names}
    )


def _has_text(kind: pa.DataType) -> bool:
    return is_text(kind) or pt.is_binary(kind) or pt.is_null(kind) or is_of_digits(kind)


def _merged(schema: pa.Schema, readers: Sequence[Any]) -> Iterator[pa.RecordBatch]:
    for batches in zip(*readers, strict=True):
        columns: dict[str, pa.Array] = {}
        for batch in batches:
            columns.update(zip(batch.schema.names, batch.columns, strict=True))
        yield pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _with_closed_quotes(
    part: _Part, batches: Iterable[pa.RecordBatch], tail: _Tail
) -> Iterator[pa.RecordBatch]:
    """Yields the batches, and then checks that the quote of the last field is closed.

    If it is not, pyarrow takes the rest of the file as the text of this field.

    Raises:
        InvalidArgumentError: it is not closed.
    """
    last = None
    for batch in batches:
        if batch.num_rows:
            last = batch.column(batch.num_columns - 1)[batch.num_rows - 1].as_py()
        yield batch
    unclosed = b'"' + (last or "").encode().replace(b'"', b'""')
    end = tail.end(len(unclosed) + 1)
    if end[1:] == unclosed and end[:1] in (b"\t" if part.format == "tsv" else b",", b"\n", b"\r"):
        raise InvalidArgumentError(
            f"{part.name}: the quote of the last field is not closed; the file may be cut short"
        )


class _Tail:
    """A stream that keeps the bytes that were read last. A row has at most two blocks."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._last: deque[pa.Buffer] = deque(maxlen=3)

    def read(self, size: int | None = None) -> pa.Buffer:
        data = self._source.read_buffer(size)  # without a copy, if the file is mapped
        if data.size:
            self._last.append(data)
        return data

    def end(self, size: int) -> bytes:
        """Returns the last ``size`` bytes of the stream, which was read to its end."""
        return b"".join(map(memoryview, self._last))[-size:]

    @property
    def closed(self) -> bool:
        return bool(self._source.closed)

    def close(self) -> None:
        self._source.close()


def _csv_reader(
    part: _Part,
    stack: ExitStack,
    types: dict[str, pa.DataType],
    columns: list[str] | None,
    *,
    text: bool,
    source: Any = None,
) -> Any:
    from pyarrow import csv

    if source is None:
        source = stack.enter_context(part.store.open_input_stream(part.path))
    return stack.enter_context(
        csv.open_csv(
            source,
            parse_options=csv.ParseOptions(
                delimiter="\t" if part.format == "tsv" else ",", newlines_in_values=True
            ),
            read_options=csv.ReadOptions(block_size=_BLOCK_BYTES),
            convert_options=csv.ConvertOptions(
                column_types={name: types[name] for name in columns or () if name in types},
                include_columns=columns or [],
                null_values=[""] if text else _NO_NUMBERS,
                # The first reader only finds out which columns have text.
                strings_can_be_null=columns is not None,
                quoted_strings_can_be_null=not text,
            ),
        )
    )


def _open_json(part: _Part, columns: Any, given_types: _Types | None, stack: ExitStack) -> _Opened:
    """Opens JSON lines. Text that looks like a time stays text, unless a column of times is given.

    If pyarrow's types lose digits of a given type, each value is converted from its text.
    """
    cast = given_types is not None and given_types.cast
    try:
        with_times = _json_reader(part, None, stack).schema
    except pa.ArrowInvalid as error:
        mixed = _mixed_columns(part, given_types) if " changed from " in str(error) else None
        if mixed is None:
            raise
        return _Opened(mixed, None, rows_of_json(_lines(part, stack), mixed, cast, part.name))
    inferred = pa.schema([field.with_type(without_times(field.type)) for field in with_times])
    given = _given(given_types, inferred.names)
    if all(keeps_json(inferred.field(name).type, kind) for name, kind in given.items()):
        kinds = {field.name: given.get(field.name, field.type) for field in inferred}
        read = [field.with_type(read_type(field.type, kinds[field.name])) for field in inferred]
        reader = _json_reader(part, pa.schema(read), stack)
        merged = {
            name: merged_type(inferred.field(name).type, kind) for name, kind in given.items()
        }
        typed = Typed(
            part.name,
            {
                name: (partial(of_json, target=k, cast=cast, place=f"column {name!r}"), k)
                for name, k in merged.items()
            },
        )
        names_inferred = set(inferred.names) - set(given)
        if given_types is not None:
            names_inferred |= given_types.inferred
        inferred_columns = [field for field in reader.schema if field.name in names_inferred]
        batches = _with_large_floats(
            [field.name for field in inferred_columns],
            reader,
            partial(_check_json_integers, part, pa.schema(inferred_columns)),
        )
        return _Opened(typed.schema(reader.schema), None, typed(batches))
    target = pa.schema(
        [
            field.with_type(merged_type(field.type, given.get(field.name, field.type)))
            for field in inferred
        ]
    )
    return _Opened(target, None, rows_of_json(_lines(part, stack), target, cast, part.name))


def _check_json_integers(part: _Part, schema: pa.Schema) -> None:
    """Raises InvalidArgumentError if a new column of floats would change an integer.

    Such an integer makes pyarrow infer floats, or is beside fractions.
    """
    with ExitStack() as stack:
        check_integers_of_json(_lines(part, stack).read, _BLOCK_BYTES, schema, part.name)


def _lines(part: _Part, stack: ExitStack) -> io.BufferedReader:
    source = stack.enter_context(part.store.open_input_stream(part.path))
    return stack.enter_context(io.BufferedReader(source))


def _mixed_columns(part: _Part, given_types: _Types | None) -> pa.Schema | None:
    """Returns the columns of a JSON file with texts among the numbers of a column.

    Returns ``None`` if the type of a column is not given.
    """
    if given_types is None:
        return None
    with ExitStack() as stack:
        names = first_names(_lines(part, stack))
    given = _given(given_types, names)
    return pa.schema(given) if names and len(given) == len(names) else None


def _json_reader(part: _Part, schema: pa.Schema | None, stack: ExitStack) -> Any:
    from pyarrow import json as arrow_json

    stream = stack.enter_context(part.store.open_input_stream(part.path))
    safe = SafeJson(stream, part.name, lambda: _lines(part, stack))
    source = stack.enter_context(pa.PythonFile(safe, mode="r"))
    options = arrow_json.ReadOptions(block_size=_JSON_BLOCK_BYTES)
    parse = arrow_json.ParseOptions(explicit_schema=schema)
    if hasattr(arrow_json, "open_json"):
        return arrow_json.open_json(source, read_options=options, parse_options=parse)
    return arrow_json.read_json(source, read_options=options, parse_options=parse).to_reader()


def _open_arrow(part: _Part, columns: Any, given_types: Any, stack: ExitStack) -> _Opened:
    source = stack.enter_context(part.store.open_input_file(part.path))
    if source.read(6) != b"ARROW1":
        source.seek(0)
        stream = stack.enter_context(pa.ipc.open_stream(source))
        return _Opened(stream.schema, None, stream)
    source.seek(0)
    file = stack.enter_context(pa.ipc.open_file(source))
    batches = (file.get_batch(number) for number in range(file.num_record_batches))
    rows = file.count_rows() if hasattr(file, "count_rows") else None
    return _Opened(file.schema, rows, batches)


def _open_nimble(part: _Part, columns: Any, given_types: Any, stack: ExitStack) -> _Opened:
    core = open_core_file(part.name, mmap=True, cache_bytes=_CACHE_BYTES)
    schema = pa.schema(core)
    names = schema.names if columns is None else _known(schema, columns) or []
    steps: list[tuple[tuple[int, ...], str]] = [
        ((schema.get_field_index(name),), name) for name in names
    ]
    projection = _core.Projection(core, steps)
    ranges = np.array([[0, core.num_rows]] if core.num_rows else [], dtype=np.uint64)
    scan = _core.ScanPart(projection, ranges.reshape(-1, 2))
    output = pa.schema([schema.field(name) for name in names])
    return _Opened(schema, core.num_rows, _core.scan([scan], output, _BATCH_ROWS, 0))


_FORMAT_OPENERS = {
    "parquet": _open_parquet,
    "csv": _open_csv,
    "tsv": _open_csv,
    "json": _open_json,
    "arrow": _open_arrow,
    "nimble": _open_nimble,
}
