"""Schema nodes, how each is laid out, and its streams: docs/format/schema.md and streams.md."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nimblepy.errors import CorruptFileError
from second_reader.metadata import SchemaNode
from second_reader.values import BOOL, BYTES, ValueType, unsigned

_SIGNED = {"c": 1, "s": 2, "i": 4, "l": 8}
_UNSIGNED = {"C": 1, "S": 2, "I": 4, "L": 8}
_FLOAT = {"e": 2, "f": 4, "g": 8}
_TIME = {"tdD": 4, "tdm": 8, "tts": 4, "ttm": 4, "ttu": 8, "ttn": 8}
_TIME |= {"tDs": 8, "tDm": 8, "tDu": 8, "tDn": 8}
_INTERVAL = {"tiM": 4, "tiD": 8, "tin": 16}


@dataclass
class Node:
    """A schema node, the numbers of its streams (None if absent), and its children."""

    id: int
    schema: SchemaNode
    layout: str
    key_kind: str = ""  # keys.md; empty: values have no order
    width: int = 0
    signed: bool = False
    list_size: int = 0
    type_ids: list[int] = field(default_factory=list)
    dense: bool = False
    validity: int | None = None
    values: int | None = None
    ends: int | None = None
    children: list[Node] = field(default_factory=list)
    parent: Node | None = None


@dataclass
class Plan:
    """All nodes in pre-order, and the type of each stream."""

    nodes: list[Node] = field(default_factory=list)
    streams: list[ValueType] = field(default_factory=list)


def _fixed(schema: SchemaNode, node: Node) -> bool:
    """Sets the layout of a fixed-width type; returns False for other formats."""
    f = schema.format
    node.layout = "fixed"
    if f in _SIGNED or f in _TIME or re.fullmatch("ts[smun]:.*", f, re.DOTALL):
        node.key_kind, node.width, node.signed = "signed", _SIGNED.get(f, _TIME.get(f, 8)), True
    elif f in _UNSIGNED:
        node.key_kind, node.width = "unsigned", _UNSIGNED[f]
    elif f in _FLOAT:
        node.key_kind, node.width = "float", _FLOAT[f]
    elif f in _INTERVAL:
        node.width, node.signed = _INTERVAL[f], f == "tiM"
    elif match := re.fullmatch(r"d:\d+,-?\d+(?:,(32|64|128|256))?", f):
        node.width, node.signed = int(match[1] or 128) // 8, True
        node.key_kind = "wide" if node.width > 8 else "signed"
    elif match := re.fullmatch(r"w:(\d+)", f):
        node.key_kind, node.width = "fixed", int(match[1])
    else:
        return False
    return True


def _layout(schema: SchemaNode, node: Node) -> None:
    f = schema.format
    if schema.dictionary is not None:
        if f not in _SIGNED and f not in _UNSIGNED:
            raise CorruptFileError(f"schema: codes of format {f!r}")
        node.layout, node.signed = "dictionary", f in _SIGNED
        node.width = (_SIGNED | _UNSIGNED)[f]
    elif f == "n":
        node.layout = "null"
    elif f == "b":
        node.layout, node.key_kind = "bool", "bool"
    elif f in ("u", "U", "vu", "z", "Z", "vz"):
        node.layout, node.key_kind = "bytes", "bytes"
    elif f in ("+l", "+L", "+vl", "+vL", "+m"):
        node.layout = "list"
    elif f in ("+s", "+r"):
        node.layout = "struct" if f == "+s" else "run_end"
    elif f.startswith("+w:"):
        node.layout, node.list_size = "fixed_list", int(f[3:])
    elif f.startswith(("+ud:", "+us:")):
        node.layout, node.dense = "union", f[2] == "d"
        node.type_ids = [int(i) for i in f[4:].split(",")] if f[4:] else []
    elif not _fixed(schema, node):
        raise CorruptFileError(f"schema: column {schema.name!r} has unknown format {f!r}")
    expected = {"list": 1, "fixed_list": 1, "run_end": 2, "union": len(node.type_ids)}
    num_children = expected.get(node.layout, len(schema.children) if node.layout == "struct" else 0)
    if len(schema.children) != num_children:
        raise CorruptFileError(f"schema: {f!r} with {len(schema.children)} children")


def value_type(node: Node) -> ValueType:
    """The type of the stream of a node's values."""
    if node.layout == "bool":
        return BOOL
    if node.layout == "bytes":
        return BYTES
    if node.key_kind == "fixed" or node.width > 8:
        return ValueType("fixed", node.width, node.signed)
    if node.key_kind == "float" and node.width >= 4:
        return ValueType("float", node.width, True)
    return ValueType("int", node.width, node.signed)  # float16: its bits


def make_plan(schema: SchemaNode) -> Plan:
    """Nodes and streams in the canonical order: pre-order; validity, values, ends."""
    plan = Plan()

    def stream(type_: ValueType) -> int:
        plan.streams.append(type_)
        return len(plan.streams) - 1

    def add(schema: SchemaNode, parent: Node | None) -> Node:
        node = Node(len(plan.nodes), schema, "")
        node.parent = parent
        plan.nodes.append(node)
        _layout(schema, node)
        if node.layout not in ("null", "run_end", "union"):
            node.validity = stream(BOOL)
        if node.layout in ("bool", "bytes", "dictionary") or (
            node.layout == "fixed" and node.width > 0
        ):
            node.values = stream(value_type(node))
        elif node.layout == "union":
            node.values = stream(unsigned(1))
        if node.layout in ("list", "run_end") or node.dense:
            node.ends = stream(unsigned(8))
        # run ends are the stream above: only the values are a node
        below = schema.children[1:] if node.layout == "run_end" else schema.children
        node.children = [add(c, node) for c in below]
        return node

    add(schema, None)
    return plan
