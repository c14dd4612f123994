"""Converts a filter over key columns to the words that a server reads.

cpp/nimble/serve/snapshot/key_filter.h defines the words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.filter import parse_filter
from nimblepy.expr.nodes import Node
from nimblepy.file.pushdown import split
from nimblepy.schema.names import show_path
from nimblepy.serving.key_text import value_text


def filter_words(filter: Any, schema: pa.Schema, keys: Iterable[str]) -> list[str | bytes]:
    """Returns the words of a filter, after their number.

    Args:
        keys: the columns of the cluster key.

    Raises:
        InvalidArgumentError: the filter is not valid, tests a column that is not a key column, or
            has a part that the server cannot test.
    """
    parsed = parse_filter(filter, schema)
    key_names = set(keys)
    for path in parsed.columns:
        if len(path) > 1 or path[0] not in key_names:
            raise InvalidArgumentError(
                f"filter: {show_path(path)} is not a column of the cluster key; a server filters "
                f"by {', '.join(sorted(key_names))}. Filter the result by other columns"
            )
    node: Node = parsed.node
    native = split(node)
    if native.residual is not None:
        raise InvalidArgumentError(
            f"filter: a server cannot test {native.residual}; filter the result"
        )
    words = _words(native.spec or ("and", []), schema)
    return [str(len(words)), *words]


def _words(spec: tuple[Any, ...], schema: pa.Schema) -> list[str | bytes]:
    kind = spec[0]
    if kind in ("and", "or"):
        parts = [word for part in spec[1] for word in _words(part, schema)]
        return [kind.upper(), str(len(spec[1])), *parts]
    if kind == "formula":
        raise InvalidArgumentError("filter: a server cannot evaluate formulas; filter the result")
    field = schema.field(spec[1][0])
    if kind in ("null", "valid"):
        return [kind.upper(), field.name]
    _, _, op, values, negated = spec
    texts = [value_text(value, field.type) for value in values]
    return ["TEST", field.name, op, str(int(negated)), str(len(texts)), *texts]
