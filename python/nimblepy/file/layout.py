"""The physical layout of a file, as `nimble inspect` prints it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from nimblepy import _core
from nimblepy.file.handle import FileHandle
from nimblepy.rows.plan import LayoutNode


def file_layout(file: FileHandle) -> LayoutNode:
    """Returns the whole file as a tree of stripe groups, stripes, columns and streams."""
    core = file.core
    nodes: list[tuple[str, str, int]] = _core.nodes(core)
    groups = []
    for number, (metadata, stripes, chunks, key_bytes) in enumerate(_core.layout(core)):
        groups.append(_group(number, metadata, stripes, chunks, key_bytes, nodes))
    sections = [
        LayoutNode(
            name=_section_name(kind, node, nodes)
            if kind != "index"
            else str(next(i for i in file.indexes if i.number == node)),
            kind="index" if kind in ("bloom", "index") else "section",
            size_bytes=size,
        )
        for kind, node, size in _core.sections(core)
        if size
    ]
    sections += [
        LayoutNode(name=f"vector ({name})", kind="index", size_bytes=size)
        for name, (_, _, size) in file.vectors.items()
    ]
    return LayoutNode(
        name=str(core.name),
        kind="file",
        rows=file.num_rows,
        size_bytes=int(core.size_bytes),
        children=(*groups, *sections),
    )


def _section_name(kind: str, node: int, nodes: list[tuple[str, str, int]]) -> str:
    title = {"bloom": "Bloom filter"}.get(kind, kind.replace("_", " "))
    of_column = kind in ("dictionary", "phrases", "shared_dictionary", "zone_map")
    return f"{title} {_path(node, nodes)}" if of_column else title


def _path(node: int, nodes: list[tuple[str, str, int]]) -> str:
    names: list[str] = []
    while node:
        name, _, node = nodes[node]
        names.append(name)
    return ".".join(reversed(names))


def _group(
    number: int,
    metadata: int,
    stripes: list[Any],
    chunks: int,
    key_bytes: int,
    nodes: list[tuple[str, str, int]],
) -> LayoutNode:
    children = [
        _stripe(i, first_row, rows, streams, nodes)
        for i, (first_row, rows, streams) in enumerate(stripes)
    ]
    if chunks:
        children.append(LayoutNode(name=f"{chunks} key chunks", kind="index", size_bytes=key_bytes))
    children.append(LayoutNode(name="group metadata", kind="section", size_bytes=metadata))
    # Heads of segments are stored in the group's metadata, but count as part of their streams.
    return LayoutNode(
        name=f"stripe group {number}",
        kind="stripe_group",
        rows=sum(stripe[1] for stripe in stripes),
        size_bytes=sum(child.size_bytes for child in children),
        children=tuple(children),
    )


def _stripe(
    number: int,
    first_row: int,
    rows: int,
    streams: list[tuple[int, str, int, int, list[str]]],
    nodes: list[tuple[str, str, int]],
) -> LayoutNode:
    by_node: dict[int, list[LayoutNode]] = {}
    for node, role, values, size, encodings in streams:
        if values:
            by_node.setdefault(node, []).append(
                LayoutNode(
                    name=role,
                    kind="stream",
                    rows=values,
                    size_bytes=size,
                    encoding=_most_common(encodings),
                )
            )
    below: dict[int, list[int]] = {}
    for node, (_, _, parent) in enumerate(nodes):
        if node:
            below.setdefault(parent, []).append(node)
    columns = [_column(node, rows, nodes, by_node, below) for node in below.get(0, [])]
    return LayoutNode(
        name=f"stripe {number} at row {first_row:,}",
        kind="stripe",
        rows=rows,
        size_bytes=sum(column.size_bytes for column in columns),
        children=tuple(columns),
    )


def _column(
    node: int,
    rows: int | None,
    nodes: list[tuple[str, str, int]],
    streams: dict[int, list[LayoutNode]],
    below: dict[int, list[int]],
) -> LayoutNode:
    name, type_name, _ = nodes[node]
    own_streams = streams.get(node, [])
    inner = [_column(child, None, nodes, streams, below) for child in below.get(node, [])]
    values = next((s for s in own_streams if s.name != "validity"), None)
    return LayoutNode(
        name=f"{name or 'item'}",
        kind="column",
        rows=rows if rows is not None else (values.rows if values else None),
        size_bytes=sum(part.size_bytes for part in (*own_streams, *inner)),
        encoding=f"{type_name}: {values.encoding}" if values else type_name,
        children=(*own_streams, *inner) if len(own_streams) + len(inner) > 1 or inner else (),
    )


def _most_common(encodings: list[str]) -> str:
    counted = Counter(encodings).most_common()
    return counted[0][0] if len(counted) == 1 else f"{counted[0][0]} (and {len(counted) - 1} more)"
