"""Which files a filter leaves, by their keys and by the statistics of other columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from nimblepy.expr.nodes import Compare, In, Node
from nimblepy.files.bounds import EncodedKeys
from nimblepy.files.manifest import Manifest
from nimblepy.files.statistics import files_that_may_pass
from nimblepy.schema.columns import resolve_column


def files_for(
    manifest: Manifest,
    conjuncts: Sequence[Node],
    statistics: Callable[[], pa.ChunkedArray | None],
) -> set[int] | None:
    """Files that may have rows for which all ``conjuncts`` are true; ``None``: any may.

    Args:
        statistics: gives those of all files; asked only if ``conjuncts`` name other columns than
            the first of the key.
    """
    keys = manifest.cluster_by
    first = resolve_column(manifest.schema, keys[0].column).path if keys else None
    left: set[int] | None = None
    for node in conjuncts:
        if not isinstance(node, (Compare, In)):
            continue
        if node.column.path == first:
            found = _files(manifest, node)
        else:
            known = statistics()
            found = None if known is None else files_that_may_pass(known, node)
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
