"""Requests for the rows with the nearest vectors, and the search in all files of a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from nimblepy import _core
from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import Filter
from nimblepy.rows.compiled import NearestReader
from nimblepy.rows.plan import Plan
from nimblepy.rows.request import Ordered
from nimblepy.rows.rowset import RowSet
from nimblepy.schema.names import ColumnName

Metric: TypeAlias = Literal["l2", "cosine", "dot"]
Vectors: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

MOST_HITS = 10_000
_REAL = (int, float, np.integer, np.floating)
# Objects that numpy converts to numbers, or to real numbers.
_NO_NUMBERS = (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64)


class VectorSource(Protocol):
    """The methods of a source that a search uses."""

    @property
    def schema(self) -> pa.Schema: ...

    def vector_columns(self) -> tuple[ColumnName, ...]: ...

    def vector_metrics(self, column: ColumnName) -> frozenset[str]: ...

    def nearest_parts(self, request: NearestRows) -> Iterator[NearestPart]: ...


@dataclass(frozen=True, slots=True, eq=False)
class NearestRows:
    """Requests the rows nearest to each of the given queries.

    Attributes:
        column: the column of vectors.
        metric: ``None`` means the metric of the files' indexes, or ``"l2"`` without an index.
        filter: if set, only rows that pass this filter are returned.
        within: if set, only rows in this range of the cluster key are returned.
    """

    column: ColumnName
    metric: Metric | None
    queries: Vectors
    k: int
    recall: float
    exact: bool
    filter: Filter | None = None
    within: Ordered | None = None

    @property
    def compares_all(self) -> bool:
        """Whether the search compares all rows and does not use indexes."""
        return self.exact or is_all(self.recall)


class NearestPart(NamedTuple):
    """The part of a search that is in one file.

    Attributes:
        file: the number of the file.
        scan: the rows that may be returned, and their vectors.
        lists: the vector index of the column, if the file has one.
        deleted: rows that are not returned.
    """

    file: int
    scan: _core.ScanPart
    lists: _core.VectorIndex | None
    deleted: _core.RowBitmap | None


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """The result of a search: the rows, each row's query and distance, and statistics."""

    rows: RowSet
    queries: np.ndarray[Any, np.dtype[np.int64]]
    distances: np.ndarray[Any, np.dtype[np.float32]]
    metric: Metric
    stats: dict[str, int]


def vector_type(type: pa.DataType) -> int | None:
    """Returns the length of the vectors of an Arrow type; ``None`` if it is not a vector type."""
    if not pa.types.is_fixed_size_list(type):
        return None
    value = type.value_type
    if pa.types.is_floating(value) or value in (pa.int8(), pa.uint8(), pa.int32()):
        return int(type.list_size)
    return None


def _not_vectors(schema: pa.Schema) -> str:
    """Returns, for a message, why the columns of lists are not columns of vectors."""
    for field in schema:
        kind = field.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return (
                f"; the lists of {field.name!r} have any length: write the column with a type of "
                "fixed length, as pyarrow.list_(pyarrow.float32(), LENGTH)"
            )
        if pa.types.is_fixed_size_list(kind):
            return (
                f"; the vectors of {field.name!r} are of {kind.value_type}, expected float16, "
                "float32, float64, int8, uint8 or int32"
            )
    return ""


def vector_column(source: VectorSource, on: str | None) -> tuple[str, int]:
    """Returns the column to search, and the length of its vectors.

    Raises:
        InvalidArgumentError: the column does not exist or does not have vectors; or ``on`` is
            ``None``, and not exactly one column can be searched.
    """
    widths = {
        field.name: width
        for field in source.schema
        if (width := vector_type(field.type)) is not None
    }
    if on is not None:
        width = widths.get(on) if isinstance(on, str) else None
        if width is None:
            is_name = isinstance(on, str)
            found = f"there is no column {on!r}" if is_name else f"got on={on!r}"
            if is_name and on in source.schema.names:
                found = f"column {on!r} has the type {source.schema.field(on).type}"
            raise InvalidArgumentError(
                f"on: {found}; expected a top-level column of fixed-size lists of float16, "
                "float32, float64, int8, uint8 or int32; such columns: "
                f"{', '.join(widths) or 'none'}"
            )
        return on, width
    names = list(widths)
    if len(names) > 1:
        indexed = set(source.vector_columns())
        names = [name for name in names if name in indexed] or names
    if len(names) != 1:
        raise InvalidArgumentError(
            f"pass on= with the column of vectors; columns that can be searched: "
            f"{', '.join(names) or 'none'}{'' if names else _not_vectors(source.schema)}"
        )
    return names[0], widths[names[0]]


def read_queries(query: Any, width: int) -> tuple[Vectors, bool]:
    """Returns the queries as a matrix, and whether the caller passed several queries.

    Raises:
        InvalidArgumentError: a query has another length than the vectors, a null, or a number
            that is not finite.
    """
    given = query
    if isinstance(query, (pa.Array, pa.ChunkedArray)):
        given = query.to_pylist()
    elif isinstance(query, pa.Scalar):
        given = query.as_py()
    try:
        values = _numbers(given)
    except (TypeError, ValueError, OverflowError) as e:
        if isinstance(query, (pa.Array, pa.ChunkedArray)) and len(query) == 0:
            return np.empty((0, width)), True
        raise InvalidArgumentError(
            f"query: expected {width} numbers, or several vectors of {width} numbers: {e}"
        ) from e
    many = values.ndim == 2 or (values.size == 0 and values.ndim == 1 and width > 0)
    if values.size == 0 and (values.ndim == 1 or values.shape[0] == 0):
        if isinstance(query, (pa.Array, pa.ChunkedArray)) or values.ndim == 2:
            return np.empty((0, width)), True
        many = False
    if values.ndim not in (1, 2) or values.shape[-1] != width:
        shape = " x ".join(map(str, values.shape)) or ("None" if given is None else "one number")
        raise InvalidArgumentError(f"query: got {shape}; the column has vectors of {width} numbers")
    if not np.isfinite(values).all():
        raise InvalidArgumentError("query: has a null, NaN or infinity; expected finite numbers")
    return np.ascontiguousarray(values.reshape(-1, width)), many


def _numbers(given: Any) -> Vectors:
    """Returns an array of doubles. Unlike numpy, does not convert text or times, or drop masks."""
    values = np.asarray(given)
    if values.dtype.kind == "O":
        other = next((x for x in values.flat if isinstance(x, _NO_NUMBERS)), None)
        if other is not None:
            raise TypeError(f"got {other!r}")
    elif values.dtype.kind not in "biuf":
        raise TypeError(f"got values of type {values.dtype}")
    rows = given if values.ndim == 2 and isinstance(given, (list, tuple)) else [given]
    if any(np.ma.is_masked(row) for row in rows):
        raise TypeError("got masked values")
    return values.astype(np.float64)


def is_all(recall: object) -> bool:
    """Returns whether a search for this recall compares all rows and does not use indexes."""
    return isinstance(recall, _REAL) and recall == 1


def check_nearest(k: object, recall: object, metric: object) -> None:
    """Raises an InvalidArgumentError if an argument of a search is not valid."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= MOST_HITS:
        raise InvalidArgumentError(f"k must be an int from 1 to {MOST_HITS:,}, got {k!r}")
    is_number = isinstance(recall, _REAL) and not isinstance(recall, bool)
    if not is_number or not 0 < recall <= 1:  # type: ignore[operator]
        raise InvalidArgumentError(f"recall must be above 0 and at most 1, got {recall!r}")
    if metric is not None and metric not in get_args(Metric):
        expected = ", ".join(map(repr, get_args(Metric)))
        raise InvalidArgumentError(f"metric must be one of {expected}, got {metric!r}")


def find_nearest(request: NearestRows, source: VectorSource) -> Nearest:
    """Searches all files of a source in one call of the core.

    Raises:
        InvalidArgumentError: there are indexes, and all have another metric than the request.
    """
    metric = search_metric(request.metric, request.compares_all, request.column, source)
    if metric == "cosine" and not request.queries.any(axis=1).all():
        raise InvalidArgumentError("query: has only zeros, which have no cosine")
    parts = list(source.nearest_parts(request))
    rows, part_of, queries, distances, stats = _core.nearest(
        _core_parts(parts, metric),
        request.queries,
        metric,
        request.k,
        request.recall,
        request.compares_all,
        0,
    )
    files = np.array([part.file for part in parts], dtype=np.int64)
    found = RowSet(rows, file=files[part_of] if len(part_of) else part_of)
    return Nearest(found, queries, distances, metric, stats)


_Part: TypeAlias = tuple[_core.ScanPart, "_core.VectorIndex | None", "_core.RowBitmap | None"]


def _core_parts(parts: list[NearestPart], metric: str) -> list[_Part]:
    core: list[_Part] = []
    for part in parts:
        # The files of a dataset, or of an old snapshot, may have an index of another metric.
        usable = part.lists is not None and part.lists.metric == metric
        core.append((part.scan, part.lists if usable else None, part.deleted))
    return core


def make_reader(
    asked: NearestReader,
    source: VectorSource,
    projection_of: Callable[[int], _core.Projection | None],
) -> _core.NearestReader | None:
    """Returns a reader of the nearest rows of all files of a source.

    Args:
        projection_of: returns the core's reader of the columns in a file; ``None`` if the core
            cannot read them.

    Returns:
        The reader; ``None`` if there are no rows, or if the core cannot read them.
    """
    queries = np.empty((0, asked.width))
    request = NearestRows(asked.vectors, None, queries, 1, 0.5, asked.exact)
    parts = list(source.nearest_parts(request))
    projections = []
    for part in parts:
        projection = projection_of(part.file)
        if projection is None:
            return None
        projections.append(projection)
    if not parts:
        return None
    core = _core_parts(parts, asked.metric)
    reader = _core.NearestReader(core, projections, asked.metric, asked.width, asked.exact)
    return reader if reader.can_read else None


def search_metric(
    metric: Metric | None, compares_all: bool, column: ColumnName, source: VectorSource
) -> Metric:
    """Returns the metric of a search. Asks all files, so that a filter cannot change it.

    Raises:
        InvalidArgumentError: the indexes have several metrics and none is given, or all have
            another one.
    """
    if metric is not None and compares_all:
        return metric
    metrics = source.vector_metrics(column)
    if metric is None:
        if len(metrics) > 1:
            raise InvalidArgumentError(
                f"the files have indexes of the metrics {', '.join(sorted(metrics))}; pass metric="
            )
        return next(iter(metrics), "l2")  # type: ignore[arg-type]
    if metrics and metric not in metrics:
        others = " and ".join(map(repr, sorted(metrics)))
        raise InvalidArgumentError(
            f"metric {metric!r}: the vector index has {others}; use that metric, or "
            "exact=True, which compares all rows"
        )
    return metric  # files with indexes of another metric are compared


def with_distances(rows: pa.Table, found: Nearest, many: bool) -> pa.Table:
    """Adds the column ``_distance`` to the rows, and ``_query`` if there were several queries."""
    for name in ("_query", "_distance"):
        if name in rows.schema.names:
            raise InvalidArgumentError(
                f"column {name!r} has the name of a column of the result; leave it out of columns="
            )
    if many:
        rows = rows.add_column(0, "_query", pa.array(found.queries))
    return rows.append_column("_distance", pa.array(found.distances))


def nearest_plan(request: NearestRows, found: Nearest, reads: int, size: int) -> Plan:
    """Returns a plan that describes what a search did."""
    stats = found.stats
    by_lists = stats["files_by_lists"] > 0
    if request.compares_all:
        why = "exact=True" if request.exact else "recall=1"
    elif by_lists:
        why = f"recall {request.recall:g} of {found.metric} by the index"
    elif stats["files_below_recall"]:
        why = f"the index does not reach the recall {request.recall:g} for these vectors"
    else:
        why = "no file has lists, or so few rows are left that comparing all of them is faster"
    return Plan(
        text=f"nearest {request.k} by {'lists' if by_lists else 'comparing all rows'}",
        details=(
            ("metric", found.metric),
            ("why", why),
            ("rows allowed", stats["rows_allowed"]),
            ("files by lists", stats["files_by_lists"]),
            ("files compared", stats["files_compared"]),
            ("lists", stats["lists"]),
            ("lists probed", stats["lists_probed"]),
            ("rows scored", stats["rows_scored"]),
            ("rows compared", stats["rows_compared"]),
        ),
        reads=reads,
        bytes=size,
        index="vector" if by_lists else None,
    )
