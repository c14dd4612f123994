"""Which files a filter leaves, by what it says of the first key column."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from nimblepy.dataset.bounds import EncodedKeys
from nimblepy.dataset.manifest import Manifest
from nimblepy.predicate_ast import Compare, In, Node


def files_for(manifest: Manifest, conjuncts: Sequence[Node]) -> set[int] | None:
    """Files that may have rows for which all ``conjuncts`` are true; ``None``: any may."""
    if not manifest.cluster_by:
        return None
    first = manifest.cluster_by[0].column
    left: set[int] | None = None
    for node in conjuncts:
        if not isinstance(node, (Compare, In)) or node.column.name != first:
            continue
        found = _files(manifest, node)
        if found is not None:
            left = found if left is None else left & found
    return left


def _files(manifest: Manifest, node: Compare | In) -> set[int] | None:
    if isinstance(node, In):
        keys = [_encoded(manifest, value) for value in node.values]
        return {i for key in keys for i in manifest.bounds.between(key, key)}
    if node.op == "!=":
        return None
    key = _encoded(manifest, node.value)
    # Small values are the last files of a descending key.
    before = node.op in ("<", "<=") if not manifest.cluster_by[0].descending else ">" in node.op
    low = None if before and node.op != "==" else key
    high = None if not before and node.op != "==" else key
    return set(manifest.bounds.between(low, high))


def _encoded(manifest: Manifest, value: pa.Scalar) -> bytes:
    """The value as the first column of a key."""
    batch = pa.RecordBatch.from_arrays([pa.array([value], value.type)], names=["k"])
    return EncodedKeys(batch, manifest.cluster_by).to_list()[0]
