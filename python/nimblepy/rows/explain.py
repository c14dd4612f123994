"""Plans: what a lookup, range or scan touches, as a printable tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nimblepy import _core
from nimblepy.rows.keys import KeyColumns
from nimblepy.rows.plan import Plan

if TYPE_CHECKING:
    from nimblepy.file.handle import FileBase as File
    from nimblepy.file.indexes import Index
    from nimblepy.rows.scan import Scan

# Stripes that are listed one by one.
_SHOWN = 8


def explain_keys(
    file: File, ranges: np.ndarray[Any, Any], found: KeyColumns, columns: Sequence[str] | None
) -> Plan:
    """A lookup of keys whose row ranges have been found."""
    hits = ranges[ranges[:, 1] > ranges[:, 0]]
    rows = int((hits[:, 1] - hits[:, 0]).sum())
    data = _data_plan(file, hits, columns)
    index = _index_plan(file, found.names, hits, len(ranges))
    return Plan(
        text="lookup",
        details=(("keys", len(ranges)), ("keys found", len(hits)), ("rows", rows)),
        children=(index, data),
        reads=index.reads + data.reads,
        bytes=index.bytes + data.bytes,
        index=index.index,
    )


def explain_rows(
    file: File, kind: str, rows: tuple[int, int], columns: Sequence[str] | None
) -> Plan:
    """A range or prefix whose rows have been found."""
    ranges = np.array([rows] if rows[0] < rows[1] else [], dtype=np.uint64).reshape(-1, 2)
    data = _data_plan(file, ranges, columns)
    index = _index_plan(file, [key.column for key in file._keys], ranges, 2)
    return Plan(
        text=kind,
        details=(("rows", rows[1] - rows[0]), ("begin", rows[0]), ("end", rows[1])),
        children=(index, data),
        reads=index.reads + data.reads,
        bytes=index.bytes + data.bytes,
        index=index.index,
    )


def explain_secondary(
    file: File,
    index: Index,
    kind: str,
    rows: np.ndarray[Any, Any],
    columns: Sequence[str] | None,
    *,
    probes: int | None = None,
) -> Plan:
    """A lookup, range or prefix whose rows a secondary index has found."""
    wanted = np.unique(rows)
    ranges = np.column_stack((wanted, wanted + np.uint64(1)))
    data = _data_plan(file, _core.merge(ranges), columns)
    asked = f"{probes} keys" if probes is not None else "2 bounds"
    searched = Plan(
        text=f"{index.kind} index: {asked}",
        details=(("rows", len(rows)),),
        index=str(index),
    )
    details: tuple[tuple[str, Any], ...] = (("rows", len(rows)),)
    if probes is not None:
        details = (("keys", probes), *details)
    return Plan(
        text=kind,
        details=details,
        children=(searched, data),
        reads=data.reads,
        bytes=data.bytes,
        index=str(index),
    )


def explain_scan(scan: Scan) -> Plan:
    """A scan: what the index and zone maps leave, and what is evaluated on it."""
    file = scan._file
    found = scan.rows()
    rows = int((found.ranges[:, 1] - found.ranges[:, 0]).sum())
    children: list[Plan] = []
    index = None
    if found.index_used:
        index = _index_name(file, [key.column for key in file._keys])
        children.append(Plan(text=f"cluster index: {' and '.join(found.index_used)}", index=index))
    for secondary, used in found.secondary:
        index = index or str(secondary)
        text = f"{secondary.kind} index: {' and '.join(used)}"
        children.append(Plan(text=text, index=str(secondary)))
    if found.zones_used:
        children.append(Plan(text=f"zone maps: {' and '.join(found.zones_used)}"))
    if found.blooms_used:
        children.append(Plan(text=f"Bloom filters: {' and '.join(found.blooms_used)}"))
    if scan._filter is not None:
        filtered = _data_plan(file, found.ranges, scan._filter.columns)
        children.append(
            Plan(
                text=f"evaluate: {scan._filter}",
                details=filtered.details,
                reads=filtered.reads,
                bytes=filtered.bytes,
            )
        )
    data = _data_plan(file, found.ranges, scan._columns)
    children.append(data)
    return Plan(
        text="scan",
        details=(("rows to look at", rows), ("rows of the file", file.num_rows)),
        children=tuple(children),
        reads=sum(child.reads for child in children),
        bytes=sum(child.bytes for child in children),
        index=index,
    )


def _index_name(file: File, names: Sequence[str]) -> str:
    return f"cluster ({', '.join(names)})"


def _index_plan(file: File, names: Sequence[str], hits: np.ndarray[Any, Any], probes: int) -> Plan:
    """Groups and key chunks that the bounds fall in: one read each where no cache has them."""
    core = file._open
    details = [("bounds", probes)]
    groups = 0
    if len(hits):
        groups = len({int(group) for group, *_ in _stripes(file, hits, [])})
    details.append(("stripe groups", groups))
    bloom = "Bloom filter, " if core.has_bloom else ""
    return Plan(
        text=f"cluster index: {bloom}group boundaries, index groups, key chunks",
        details=tuple(details),
        reads=groups + (min(probes, max(groups, len(hits))) if groups else 0),
        index=_index_name(file, names),
    )


def _stripes(
    file: File, ranges: np.ndarray[Any, Any], columns: Sequence[str] | None
) -> list[tuple[int, int, int, int, int]]:
    if len(ranges) == 0:
        return []
    projection = file._projection(columns)
    return list(projection.plan_reads(np.ascontiguousarray(ranges)))


def _data_plan(file: File, ranges: np.ndarray[Any, Any], columns: Sequence[str] | None) -> Plan:
    stripes = _stripes(file, ranges, columns)
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
        text=f"data: {', '.join(names) if names else 'no column'}",
        details=(("stripes", len(stripes)),),
        children=shown,
        reads=sum(s[3] for s in stripes),
        bytes=sum(s[4] for s in stripes),
    )
