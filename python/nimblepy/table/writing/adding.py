"""Describes existing files, so that a table can add them."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

import pyarrow as pa

from nimblepy.errors import CorruptFileError, InvalidArgumentError
from nimblepy.file.open import open_source
from nimblepy.files.mapped import MappedRows
from nimblepy.files.parquet_rows import ParquetRows
from nimblepy.io.location import is_uri, locate
from nimblepy.rows.request import Where
from nimblepy.rows.source import RowSource
from nimblepy.schema.field_ids import (
    field_id_of,
    has_field_ids,
    id_difference,
    with_field_ids,
)
from nimblepy.table.base.model import FILE_FORMATS, DataFile, DataFormat
from nimblepy.table.base.moved import translation_of
from nimblepy.table.base.places import readable_path
from nimblepy.table.base.types import Conformer
from nimblepy.table.writing.metrics import MetricsCollector
from nimblepy.table.writing.write import Target, partition_of

_BATCH_ROWS = 1 << 17


def describe_files(
    paths: Sequence[str],
    target: Target,
    names: Mapping[tuple[str, ...], int],
    defaults: Mapping[int, pa.Scalar],
) -> list[DataFile]:
    """Describes files for a manifest.

    Args:
        names: field ids by path, for files without field ids.
        defaults: values of columns that a file does not have, by field id.

    Raises:
        InvalidArgumentError: a file does not fit the table; the message says why.
    """
    all_paths = [path for item in paths for path in _listed(item)]
    if not all_paths:
        raise InvalidArgumentError(f"add_files: no nimble or Parquet file in {paths}")
    twice = next((path for path in all_paths if all_paths.count(path) > 1), None)
    if twice is not None:
        raise InvalidArgumentError(f"add_files: {twice} is given twice; give each file once")
    _check_not_moved(all_paths, target.location)
    _make_young(all_paths, target.location)
    files = [_describe(path, target, names, defaults) for path in all_paths]
    _warn_of_other_tables(all_paths, target.location)
    return [file for file in files if file.rows]


def _check_not_moved(paths: Sequence[str], location: str) -> None:
    """Raises for files at the location that the table's lake had before it moved."""
    translation = translation_of(location)
    if translation is None:
        return
    for path in paths:
        if translation.path(path) != path:
            raise InvalidArgumentError(
                f"add_files: {path} is at the former location of the table's lake, and paths "
                "there now mean the new location. Run 'nimble table relocate' first"
            )


def _make_young(paths: Sequence[str], location: str) -> None:
    """Sets the times of files in the table's own directory to now, so that they are not orphans.

    No metadata names them before the commit, and they may be old.
    """
    own = os.path.realpath(readable_path(location))
    for path in paths:
        local = os.path.realpath(readable_path(path))
        if local.startswith(own + os.sep):
            with contextlib.suppress(OSError):  # a missing file is reported when it is read
                os.utime(local)


def _warn_of_other_tables(paths: Sequence[str], location: str) -> None:
    """Warns about files of another table, because each table removes them when it expires them."""
    own = os.path.realpath(readable_path(location))
    seen: set[str] = set()
    for path in paths:
        place = locate(path)
        folder = os.path.dirname(place.path)
        while place.is_local and folder not in seen and folder != os.path.dirname(folder):
            seen.add(folder)
            metadata = os.path.join(folder, "metadata")
            if os.path.isdir(metadata) and os.path.realpath(folder) != own:
                if any(name.endswith(".metadata.json") for name in os.listdir(metadata)):
                    warnings.warn(
                        f"add_files: {path} belongs to the table at {folder}; when one table "
                        "removes the file, the other loses it. Add a copy, or drop one of the "
                        "tables without purge",
                        UserWarning,
                        stacklevel=4,
                    )
                break
            folder = os.path.dirname(folder)


def _listed(path: str) -> Iterator[str]:
    place = locate(path)
    if not place.is_directory():
        yield path if is_uri(path) else os.path.realpath(path)
        return
    for name in place.names():
        if name.endswith((".nimble", ".parquet")):
            inside = f"{path.rstrip('/')}/{name}"
            yield inside if is_uri(path) else os.path.realpath(inside)


def _describe(
    path: str,
    target: Target,
    names: Mapping[tuple[str, ...], int],
    defaults: Mapping[int, pa.Scalar],
) -> DataFile:
    def missing(field: pa.Field, place: str) -> pa.Scalar:
        number = field_id_of(field)
        default = None if number is None else defaults.get(number)
        return pa.scalar(None, field.type) if default is None else default

    kind: DataFormat = "parquet" if path.endswith(".parquet") else "nimble"
    source: RowSource
    try:
        source = ParquetRows(path) if kind == "parquet" else open_source(path)
    except CorruptFileError as error:
        raise InvalidArgumentError(f"add_files: {error}") from error
    with closing(source):
        have = source.schema
        if not has_field_ids(have):
            have = with_field_ids(have, names)
        try:
            Conformer(source.schema, target.schema)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"add_files: {path}: {error}") from error
        differs = id_difference(have, target.schema)
        if differs is not None:
            name, number = ".".join(differs.path), differs.have
            raise InvalidArgumentError(
                f"add_files: {path}: its column {name!r} has "
                + ("no field id" if number is None else f"the field id {number}")
                + f"; the table's column has {differs.expected}. It is a file of another table: "
                "append its rows"
            )
        rows = MappedRows(source, target.schema, missing=missing, have=have)
        metrics = MetricsCollector(target.schema)
        partitions = set()
        everything = Where(None, rows.all_rows())
        for batch in rows.scan_batches(everything, None, batch_rows=_BATCH_ROWS, threads=0):
            metrics.add(batch)
            partitions |= partition_of(pa.Table.from_batches([batch]), target)
            for item, column in zip(target.schema, batch.columns, strict=True):
                if not item.nullable and column.null_count:
                    raise InvalidArgumentError(
                        f"add_files: {path}: column {item.name!r} has nulls, which the table does "
                        "not allow"
                    )
            if len(partitions) > 1:
                raise InvalidArgumentError(
                    f"add_files: {path} has rows of more than one partition; append its rows"
                )
        place = locate(path)
        size = os.stat(place.path).st_size if place.is_local else source.size_bytes
        return DataFile(
            path=path if is_uri(path) else f"file://{path}",
            format=FILE_FORMATS[kind],
            rows=source.num_rows,
            bytes=size,
            spec_id=target.spec_id,
            partition=next(iter(partitions), ()),
            metrics=metrics.result(),
        )
