"""Plans of lookups, ranges and scans in one file, as printable trees."""

from __future__ import annotations

from collections.abc import Sequence

from nimblepy import _core
from nimblepy.expr.filter import Filter
from nimblepy.expr.nodes import Node
from nimblepy.file.candidates import candidate_rows
from nimblepy.file.handle import FileHandle
from nimblepy.file.indexes import Index
from nimblepy.rows.arguments import Projected
from nimblepy.rows.plan import DetailValue, Plan
from nimblepy.rows.request import KeyRange, Keys, Ordered, Where
from nimblepy.rows.rowset import RowSet
from nimblepy.schema.names import output_name, show_names

# Maximum number of stripes to list individually.
_SHOWN = 8


def explain_keys(
    file: FileHandle, index: Index, keys: Keys, rows: RowSet, columns: Projected
) -> Plan:
    """Returns the plan of a lookup of keys, given the rows that were found."""
    keys_found = int((rows.counts > 0).sum())
    details = (("keys", len(keys)), ("keys found", keys_found), ("rows", rows.num_rows))
    return _plan(file, index, "lookup", details, rows, columns, probes=len(keys))


def explain_ordered(
    file: FileHandle, index: Index, request: Ordered, rows: RowSet, columns: Projected
) -> Plan:
    """Returns the plan of a range or prefix, given the rows that were found."""
    details: tuple[tuple[str, DetailValue], ...] = (("rows", rows.num_rows),)
    if index.is_cluster:
        begin, end = rows.as_range or (0, 0)
        details = (*details, ("begin", begin), ("end", end))
    kind = "range" if isinstance(request, KeyRange) else "prefix"
    return _plan(file, index, kind, details, rows, columns, probes=2)


def explain_where(file: FileHandle, where: Where, columns: Projected) -> Plan:
    """Returns the plan of a scan: how candidate rows are found, then filtered and read."""
    candidates = candidate_rows(file, where)
    children: list[Plan] = []
    index = None
    if where.filter is not None and where.filter.matches_nothing:
        children.append(Plan(text="no row can pass"))
    if candidates.index_used:
        index = _cluster_name(file)
        children.append(Plan(text=f"cluster index: {_joined(candidates.index_used)}", index=index))
    for secondary, used in candidates.secondary:
        index = index or str(secondary)
        text = f"{secondary.kind} index: {_joined(used)}"
        children.append(Plan(text=text, index=str(secondary)))
    if candidates.zones_used:
        children.append(Plan(text=f"zone maps: {_joined(candidates.zones_used)}"))
    if candidates.blooms_used:
        children.append(Plan(text=f"Bloom filters: {_joined(candidates.blooms_used)}"))
    if where.filter is not None:
        children.append(_evaluation(file, where.filter, candidates.rows))
    children.append(_data_plan(file, candidates.rows, columns))
    return Plan(
        text="scan",
        details=(
            ("rows to look at", candidates.rows.num_rows),
            ("rows of the file", file.num_rows),
        ),
        children=tuple(children),
        reads=sum(child.reads for child in children),
        bytes=sum(child.bytes for child in children),
        index=index,
    )


def _joined(nodes: Sequence[Node]) -> str:
    return " and ".join(map(str, nodes))


def _evaluation(file: FileHandle, filter: Filter, rows: RowSet) -> Plan:
    read = _data_plan(file, rows, filter.columns)
    return Plan(
        text=f"evaluate: {filter}", details=read.details, reads=read.reads, bytes=read.bytes
    )


def _plan(
    file: FileHandle,
    index: Index,
    text: str,
    details: tuple[tuple[str, DetailValue], ...],
    rows: RowSet,
    columns: Projected,
    *,
    probes: int,
) -> Plan:
    data = _data_plan(file, rows, columns)
    if index.is_cluster:
        searched = _cluster_plan(file, rows, probes)
    else:
        probe_text = f"{probes} keys" if text == "lookup" else "2 bounds"
        searched = Plan(
            text=f"{index.kind} index on {', '.join(map(str, index.keys))}: {probe_text}",
            details=(("rows", rows.num_rows),),
            index=str(index),
        )
    return Plan(
        text=text,
        details=details,
        children=(searched, data),
        reads=searched.reads + data.reads,
        bytes=searched.bytes + data.bytes,
        index=searched.index,
    )


def _cluster_name(file: FileHandle) -> str:
    return f"cluster ({show_names(key.column for key in file.cluster_by)})"


def _cluster_plan(file: FileHandle, rows: RowSet, probes: int) -> Plan:
    """Returns the plan of searches in the cluster index.

    An index that is not cached needs one read per group and one per key chunk.
    """
    groups = len({int(group) for group, *_ in _stripes(file, rows, ())})
    bloom = "Bloom filter, " if file.core.has_bloom else ""
    return Plan(
        text=f"cluster index: {bloom}group boundaries, index groups, key chunks",
        details=(("bounds", probes), ("stripe groups", groups)),
        reads=groups + (min(probes, max(groups, len(rows.begin))) if groups else 0),
        index=_cluster_name(file),
    )


def _stripes(
    file: FileHandle, rows: RowSet, columns: Projected
) -> list[tuple[int, int, int, int, int]]:
    ranges = _core.merge(rows.ranges)
    return list(file.projection(columns).plan_reads(ranges)) if len(ranges) else []


def _data_plan(file: FileHandle, rows: RowSet, columns: Projected) -> Plan:
    stripes = _stripes(file, rows, columns)
    shown = tuple(
        Plan(
            text=f"stripe at row {first:,} of group {group}",
            details=(("rows", rows),),
            reads=reads,
            bytes=size,
        )
        for group, first, rows, reads, size in stripes[:_SHOWN]
    )
    if len(stripes) > _SHOWN:
        rest = stripes[_SHOWN:]
        shown += (
            Plan(
                text=f"{len(rest)} more stripes",
                reads=sum(s[3] for s in rest),
                bytes=sum(s[4] for s in rest),
            ),
        )
    names = file.schema.names if columns is None else list(columns)
    return Plan(
        text=f"data: {', '.join(map(output_name, names)) if names else 'no column'}",
        details=(("stripes", len(stripes)),),
        children=shown,
        reads=sum(s[3] for s in stripes),
        bytes=sum(s[4] for s in stripes),
    )
