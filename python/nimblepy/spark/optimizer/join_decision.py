"""Decides how Spark runs a join: by lookups in the index, by a broadcast, or unchanged.

The rule, which is Java, describes the join as JSON. Nothing here may run a Spark job, because the
answer is given while Spark plans the query.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import types as T
from pyspark.sql.types import DataType, StructField, StructType, _parse_datatype_json_string

from nimblepy.errors import IndexUnavailableError, NimbleError
from nimblepy.files.source import FilesSource
from nimblepy.join.asof import AsofKeywords
from nimblepy.schema.names import show_names
from nimblepy.spark.base.inputs import SparkInput
from nimblepy.spark.base.schemas import spark_schema
from nimblepy.spark.joins.arguments import JoinArguments
from nimblepy.spark.joins.asof import prepare_asof
from nimblepy.spark.joins.estimate import UNKNOWN_BYTES, JoinEstimate, estimate_costs
from nimblepy.spark.joins.index_join import PreparedJoin, prepare
from nimblepy.spark.reading.scan import asks_for_own_join, read_arguments

_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
# For these types, Spark and an index agree on equality. Floats are excluded: NaN and -0.0.
_EXACT = (
    *_INTEGERS,
    T.BinaryType,
    T.BooleanType,
    T.DateType,
    T.DecimalType,
    T.StringType,
    T.TimestampNTZType,
    T.TimestampType,
)


# If a key may have more rows, Spark joins: one array would hold them all, in a task's memory.
MOST_ROWS_OF_KEY = 1_000_000


class KeepJoinError(Exception):
    """Raised if the join is not replaced. The message says why."""


@dataclass(frozen=True)
class Lookup:
    """A lookup that replaces a join.

    Attributes:
        key: identifies the files and the arguments.
        has_match: whether the lookup returns only whether there is a match.
        equalities: positions of the used equalities, in the order of the arguments.
        range: position of the used range, or -1.
        fetched: columns of the files, as they are in a match.
    """

    key: str
    join: PreparedJoin
    has_match: bool
    equalities: tuple[int, ...]
    range: int
    fetched: tuple[str, ...]


def decide_join(question: Mapping[str, Any]) -> tuple[dict[str, Any], Lookup | None]:
    """Returns the answer to the rule, and the lookup that the answer names."""
    try:
        lookup, estimate = _planned(question)
    except KeepJoinError as keep:
        return {"action": "keep", "reason": str(keep)}, None
    shown = dataclasses.asdict(estimate)
    most = max(estimate.matches or 0, estimate.most_matches)
    if not lookup.has_match and "asof" not in question and most > MOST_ROWS_OF_KEY:
        reason = f"a key has about {most:,.0f} rows, too many for one array"
        return {"action": "keep", "reason": reason, "estimate": shown}, None
    if question["setting"].lower() != "always":
        if "asof" not in question and _prefers_broadcast(estimate):
            reason = f"the files are small: {estimate.build_rows:,} rows are broadcast"
            return {"action": "broadcast", "reason": reason, "estimate": shown}, None
        if estimate.strategy == "scan":
            return {"action": "keep", "reason": estimate.reason, "estimate": shown}, None
    answer = {
        "action": "index",
        "reason": estimate.reason,
        "estimate": shown,
        "lookup": lookup.key,
        "boolean": lookup.has_match,
        "keys": list(lookup.equalities),
        "range": lookup.range,
        "fetched": list(lookup.fetched),
    }
    return answer, lookup


def _prefers_broadcast(estimate: JoinEstimate) -> bool:
    if not estimate.broadcasts_files:
        return False
    return estimate.probe_rows is None or estimate.strategy == "scan"


def _planned(question: Mapping[str, Any]) -> tuple[Lookup, JoinEstimate]:
    options = {name.lower(): value for name, value in question["options"].items()}
    given = _scan_arguments(options)
    files: SparkInput = given["files"]
    dataset: FilesSource = files.dataset
    types = {
        column["name"]: _parse_datatype_json_string(column["type"])
        for column in question["columns"]
    }
    stored = spark_schema(dataset.projected(tuple(types)))
    if {field.name: field.dataType for field in stored} != types:
        raise KeepJoinError("the column types of the query differ from those of the files")
    if "asof" in question:
        return _planned_asof(question, given, types)
    equalities = question["equalities"]
    usable = _usable(equalities, types)
    null_equals = any(equalities[at]["null_safe"] for at in usable.values())
    index = _indexed(dataset, usable, equalities)
    at, bounds = _range(question["ranges"], dataset, index, types)
    used = [usable[name] for name in index]
    has_match, fetched = _fetched(question, used, index, list(types))
    probe = [
        StructField(f"__probe_{i}", _parse_datatype_json_string(equalities[position]["type"]))
        for i, position in enumerate(used)
    ]
    between = None
    if bounds is not None:
        column, *ends = bounds
        names = [f"__probe_{end}" if has else None for end, has in zip("lu", ends, strict=True)]
        probe += [StructField(name, types[column]) for name in names if name is not None]
        between = {column: (names[0], names[1])}
    arguments = JoinArguments(
        on={f"__probe_{i}": name for i, name in enumerate(index)},
        how="semi" if has_match else "inner",
        columns=fetched,
        condition=given.get("filter"),
        between=between,
        null_equals=null_equals,
    )
    try:
        join = prepare(StructType(probe), files, arguments)
    except NimbleError as error:
        raise KeepJoinError(str(error)) from error
    key = _digest(
        (files.key, _identity(given.get("filter"))),
        (fetched, has_match, index, between, null_equals),
        StructType(probe).json(),
    )
    lookup = Lookup(key, join, has_match, tuple(used), at, tuple(fetched))
    return lookup, _estimate(question, dataset, index, fetched)


def _planned_asof(
    question: Mapping[str, Any], given: Mapping[str, Any], types: Mapping[str, DataType]
) -> tuple[Lookup, JoinEstimate]:
    """Like :func:`_planned`, for as-of joins. The search needs all equalities."""
    if given.get("filter") is not None:
        raise KeepJoinError("the filter must hold before the nearest row is chosen")
    files: SparkInput = given["files"]
    equalities, asof = question["equalities"], question["asof"]
    # The rule has checked that no equality is null-safe.
    usable = _usable(equalities, types) if equalities else {}
    if len(usable) < len(equalities):
        raise KeepJoinError("an index cannot check all of these equalities as Spark does")
    on_type = _parse_datatype_json_string(asof["type"])
    if not _same_values(types[asof["column"]], on_type):
        raise KeepJoinError("an index cannot order these types as Spark does")
    used = tuple(usable.values())
    _, fetched = _fetched(question, used, (), list(types))
    fetched = fetched or [asof["column"]]
    probe = [
        StructField(f"__probe_{i}", _parse_datatype_json_string(equalities[position]["type"]))
        for i, position in enumerate(used)
    ]
    probe.append(StructField("__probe_on", on_type))
    keywords = AsofKeywords(
        on={"__probe_on": asof["column"]},
        by={f"__probe_{i}": name for i, name in enumerate(usable)} or None,
        direction="backward" if asof["backward"] else "forward",
        allow_exact_matches=not asof["strict"],
        how="inner",
        columns=fetched,
    )
    try:
        join = prepare_asof(StructType(probe), files, keywords)
    except NimbleError as error:
        raise KeepJoinError(str(error)) from error
    key = _digest(files.key, StructType(probe).json(), tuple(keywords.items()))
    lookup = Lookup(key, join, False, used, -1, tuple(fetched))
    index = [*usable, asof["column"]]
    return lookup, _estimate(question, files.dataset, index, fetched)


def _identity(filter: Any) -> Any:
    """Returns a filter completely; the ``repr`` of an expression leaves out parts of long lists."""
    return filter.__reduce__()[1][0].to_pybytes() if isinstance(filter, pc.Expression) else filter


def _digest(*identity: object) -> str:
    return hashlib.sha256(repr(identity).encode()).hexdigest()


def _estimate(
    question: Mapping[str, Any], dataset: FilesSource, index: Sequence[str], fetched: Sequence[str]
) -> JoinEstimate:
    rows, size = _probe_size(question["probe"])
    if "asof" in question:
        size = None  # Spark sorts both sides of an as-of join
    return estimate_costs(
        dataset,
        list(index),
        num_columns=max(1, len(fetched)),
        how=question["how"],
        probe_rows=rows,
        probe_bytes=size,
    )


def _scan_arguments(options: Mapping[str, str]) -> dict[str, Any]:
    if asks_for_own_join(options):
        raise KeepJoinError('strategy="scan" asks for Spark\'s own join')
    given = read_arguments(options)
    if given is None:
        raise KeepJoinError("the query reads changes, or has options that are not for reading")
    if given.get("keys") is not None or given.get("key_range") is not None:
        raise KeepJoinError("the scan already selects keys")
    return given


def _usable(
    equalities: Sequence[Mapping[str, Any]], types: Mapping[str, DataType]
) -> dict[str, int]:
    """Returns, by column, the equality that an index answers exactly. All treat nulls alike."""
    usable: dict[str, int] = {}
    for at, equality in enumerate(equalities):
        name = equality["column"]
        if not _same_values(types[name], _parse_datatype_json_string(equality["type"])):
            continue
        # Prefer a value of the probe: for a constant, a plain filter is enough.
        if name not in usable or equalities[usable[name]]["constant"]:
            usable[name] = at
    if len({equalities[at]["null_safe"] for at in usable.values()}) > 1:
        usable = {name: at for name, at in usable.items() if not equalities[at]["null_safe"]}
    if not usable:
        raise KeepJoinError("an index cannot compare these types as Spark does")
    return usable


def _same_values(column: DataType, probe: DataType) -> bool:
    if isinstance(column, _INTEGERS) and isinstance(probe, _INTEGERS):
        return True
    if isinstance(column, T.StringType) and column != T.StringType():
        return False  # a collation
    return column == probe and isinstance(column, _EXACT)


def _indexed(
    dataset: FilesSource, usable: Mapping[str, int], equalities: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Returns the columns of the index that uses the most equalities."""
    cluster = [key.column for key in dataset.cluster_by]
    leading: list[str] = []
    for name in cluster:
        if name not in usable:
            break
        leading.append(str(name))
    candidates = [leading, list(usable)]
    indexes = dataset.child(0).indexes if dataset.num_files else dataset.declared
    for info in indexes:
        columns = [str(key.column) for key in info.columns if isinstance(key.column, str)]
        if len(columns) == len(info.columns) and usable.keys() >= set(columns):
            candidates.append(columns)
    candidates.sort(key=len, reverse=True)
    for names in candidates:
        if not names or all(equalities[usable[name]]["constant"] for name in names):
            continue
        try:
            dataset.index_keys(tuple(names), ordered=False)
        except IndexUnavailableError:
            continue
        return names
    shown = show_names(list(usable))
    raise KeepJoinError(f"no index on ({shown}), or only constants are compared with its columns")


def _range(
    ranges: Sequence[Mapping[str, Any]],
    dataset: FilesSource,
    index: Sequence[str],
    types: Mapping[str, DataType],
) -> tuple[int, tuple[str, bool, bool] | None]:
    """Returns the range on the column after the equalities in the cluster key, and its position."""
    cluster = [key.column for key in dataset.cluster_by]
    if set(cluster[: len(index)]) != set(index) or len(cluster) == len(index):
        return -1, None
    following = cluster[len(index)]
    for at, bounds in enumerate(ranges):
        if bounds["column"] != following:
            continue
        kind = types[str(following)]
        # Text has no maximum to use as an upper bound.
        open_text = isinstance(kind, (T.StringType, T.BinaryType)) and not bounds["upper"]
        if isinstance(kind, _EXACT) and not open_text:
            return at, (str(following), bounds["lower"], bounds["upper"])
    return -1, None


def _fetched(
    question: Mapping[str, Any], used: Sequence[int], index: Sequence[str], columns: Sequence[str]
) -> tuple[bool, list[str]]:
    """Returns whether the join only needs to know if there is a match, and a match's columns."""
    equalities = question["equalities"]
    others = {e["column"] for at, e in enumerate(equalities) if at not in used}
    tested = set(question["residual"]) | others
    how = question["how"]
    if how in ("semi", "anti", "exists"):
        if not question["has_residual"] and not others:
            return True, []
        needed = tested
    else:
        needed = tested | set(question["needed"])
    if how == "inner":  # the probe has the value of the key
        needed -= set(index)
    fetched = [name for name in columns if name in needed]
    return False, fetched or list(index[:1])


def _probe_size(size: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Returns (rows, bytes) of the probe.

    Limits rows by the largest leaf: Spark overestimates joins.
    """
    num_bytes = int(size["bytes"])
    known_bytes = num_bytes if num_bytes < UNKNOWN_BYTES else None
    if size["rows"] is not None:
        return max(1, int(size["rows"])), known_bytes
    leaf_rows = max([int(size["leaf_rows"]), *map(_rows_of_scan, size["scans"])])
    rows = min(num_bytes // max(1, int(size["row_bytes"])), leaf_rows)
    if rows * max(1, int(size["row_bytes"])) >= UNKNOWN_BYTES:
        return None, None
    return max(1, rows), known_bytes


def _rows_of_scan(options: Mapping[str, str]) -> int:
    """Returns the number of rows of the files that a scan reads, before its filter."""
    given = read_arguments({name.lower(): value for name, value in options.items()})
    if given is None:
        return UNKNOWN_BYTES  # changes of a table
    return int(given["files"].dataset.num_rows)
