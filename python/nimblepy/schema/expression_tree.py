"""Reads the tree of a pyarrow expression.

pyarrow has no public way to walk an expression, but it can pickle one. This module does not
unpickle anything: ``__reduce__`` of an expression in this process only returns the payload, which
is parsed as data. The payload is an Arrow IPC file. Its schema metadata lists the nodes in prefix
order (``call``, ``field_ref``, ``literal``, ``options``, ``end``), and its columns hold literals
and options with their full types. Unlike ``str(expression)``, this is lossless: int8 and int64
differ, and long ``is_in`` lists are complete.

The layout is private to pyarrow. A tree is therefore trusted only if the expression rebuilt from it
equals the original; otherwise the expression is opaque.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Ref:
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lit:
    scalar: pa.Scalar


@dataclass(frozen=True, slots=True)
class Call:
    """A function call. ``options`` is the struct scalar that pyarrow stores, or ``None``."""

    name: str
    args: tuple[Tree, ...]
    options: pa.StructScalar | None


Tree: TypeAlias = Ref | Lit | Call


class NotUnderstood(Exception):
    """Raised inside the filter modules if a part of an expression cannot be read or rebuilt."""


_ITEM = re.compile(
    r"^(call|field_ref|nested_field_ref|literal|options|end): '(.*?)'"
    r"(?=\n(?:call|field_ref|nested_field_ref|literal|options|end): '|\Z)",
    re.DOTALL | re.MULTILINE,
)


def read_tree(expression: pc.Expression) -> Tree:
    """Returns the tree of ``expression``.

    Raises:
        NotUnderstood: pyarrow cannot pickle the expression.
    """
    try:
        payload = expression.__reduce__()[1][0]
        batch = pa.ipc.open_file(payload).get_batch(0)
    except (pa.ArrowException, OSError, TypeError, IndexError) as error:
        raise NotUnderstood(str(error)) from error
    # Keys repeat, so the dict from schema.metadata would lose most of them.
    text = batch.schema.to_string(show_schema_metadata=True, truncate_metadata=False)
    _, _, metadata = text.partition("-- schema metadata --\n")
    items = [(match[1], match[2]) for match in _ITEM.finditer(metadata)]
    cursor = iter(items)
    try:
        tree = _read(next(cursor), cursor, batch)
    except (StopIteration, ValueError, IndexError, pa.ArrowException) as error:
        raise NotUnderstood("unknown layout of a pickled expression") from error
    if next(cursor, None) is not None:
        raise NotUnderstood("unknown layout of a pickled expression")
    return tree


def _read(item: tuple[str, str], rest: Iterator[tuple[str, str]], batch: pa.RecordBatch) -> Tree:
    kind, text = item
    if kind == "literal":
        return Lit(batch.column(int(text))[0])
    if kind == "field_ref":
        return Ref((text,))
    if kind == "nested_field_ref":
        parts = [next(rest) for _ in range(int(text))]
        if any(part[0] != "field_ref" for part in parts):
            raise ValueError("a nested reference has a part that is not a field")
        return Ref(tuple(part[1] for part in parts))
    if kind != "call":
        raise ValueError(kind)
    args: list[Tree] = []
    options: pa.StructScalar | None = None
    for item in rest:
        if item == ("end", text):
            return Call(text, tuple(args), options)
        if item[0] == "options":
            options = batch.column(int(item[1]))[0]
        else:
            args.append(_read(item, rest, batch))
    raise ValueError("a call has no end")


def rebuild(tree: Tree) -> pc.Expression:
    """Returns the expression of ``tree``; raises :class:`NotUnderstood` if it cannot be built."""
    if isinstance(tree, Ref):
        return pc.field(*tree.path)
    if isinstance(tree, Lit):
        return pc.scalar(tree.scalar)
    args = [rebuild(arg) for arg in tree.args]
    function = getattr(pc, tree.name, None)
    if function is None:
        raise NotUnderstood(f"pyarrow.compute has no function {tree.name}")
    try:
        if tree.options is None:
            return function(*args)
        options = _options(tree.options)
        return (
            args[0].cast(options=options)
            if tree.name == "cast"
            else function(*args, options=options)
        )
    except (TypeError, ValueError, KeyError, pa.ArrowException) as error:
        raise NotUnderstood(f"{tree.name}: {error}") from error


def _options(fields: pa.StructScalar) -> pc.FunctionOptions:
    """Converts a struct to function options: pyarrow reads them from a batch of one row."""
    batch = pa.RecordBatch.from_arrays([pa.array([fields], fields.type)], [""])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pc.FunctionOptions.deserialize(sink.getvalue())


def value_set(options: pa.StructScalar) -> pa.Array:
    """Returns the values that ``is_in`` searches; for a dictionary, its values."""
    values = options["value_set"].values
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def references(tree: Tree) -> list[Ref]:
    """Returns every field reference in the tree, in order, with repeats."""
    if isinstance(tree, Ref):
        return [tree]
    if isinstance(tree, Lit):
        return []
    return [ref for arg in tree.args for ref in references(arg)]
