"""Zone maps against the data: docs/format/zone_maps.md."""

from __future__ import annotations

import numpy as np

from nimblepy.errors import CorruptFileError
from second_reader.bits import Array
from second_reader.columns import StripeData
from second_reader.keys import Leaf, both, direct_leaf, encode_column, successor
from second_reader.metadata import ZoneMap
from second_reader.schema import Node
from second_reader.values import slice_of

MAX_BOUND = 64


def path_of(node: Node) -> list[Node]:
    """The nodes below the root that lead to `node`, which is the last."""
    above = [] if node.parent is None or node.parent.parent is None else path_of(node.parent)
    return [*above, node]


def has_zones(node: Node) -> bool:
    """Whether this node may have a zone map."""
    if not node.key_kind or node.values is None or node.parent is None:
        return False
    return all(n.layout in ("struct", "list", "fixed_list") for n in path_of(node)[:-1])


def zone_leaf(data: StripeData, node: Node, begin: int, end: int) -> Leaf:
    """The leaf values of rows [begin, end) of a stripe."""
    masks: list[Node] = []
    for n in path_of(node):
        masks.append(n)
        if n.layout == "list":
            edges = np.concatenate([[0], data.ends(n)])
            begin, end, masks = int(edges[begin]), int(edges[end]), []
        elif n.layout == "fixed_list":
            begin, end, masks = begin * n.list_size, end * n.list_size, []
    valid: Array | None = None
    for n in masks:  # the leaf and the structs right above it
        own = data.valid(n)
        valid = both(valid, None if own is None else own[begin:end])
    values = slice_of(direct_leaf(data, node).values, begin, end)
    return Leaf(node, valid, values, end - begin)


def _check_bounds(zones: ZoneMap, i: int, keys: list[bytes]) -> None:
    low, high, exact = zones.mins[i], zones.maxes[i], zones.max_exact[i]
    if not keys:
        if low or high:
            raise CorruptFileError(f"zone {i} has bounds but no values")
        return
    smallest, largest = min(keys), max(keys)
    if low != smallest[:MAX_BOUND] or high != largest[:MAX_BOUND]:
        raise CorruptFileError(
            f"zone {i}: bounds {low.hex()} and {high.hex()} of values from {smallest.hex()} "
            f"to {largest.hex()}"
        )
    above = successor(high)
    if bool(exact) != (high == largest) or not (exact or above is None or largest < above):
        raise CorruptFileError(f"zone {i}: max_exact is {exact}")


def check_zones(
    zones: ZoneMap, node: Node, stripes: list[tuple[int, StripeData]], first_zone: int = 0
) -> int:
    """Compares the zones of these stripes (first row, data); returns how many there are."""
    checked = 0
    for first_row, data in stripes:
        at = first_row
        while at < first_row + data.rows:
            i = first_zone + checked
            end = zones.end_rows[i] if i < len(zones.end_rows) else 0
            if not at < end <= first_row + data.rows:
                raise CorruptFileError(f"zone {i} ends at row {end}, it begins at {at}")
            leaf = zone_leaf(data, node, at - first_row, end - first_row)
            _check_zone(zones, i, leaf)
            at = end
            checked += 1
    return checked


def _check_zone(zones: ZoneMap, i: int, leaf: Leaf) -> None:
    keep = np.ones(leaf.count, bool) if leaf.valid is None else leaf.valid.copy()
    nulls = leaf.count - int(keep.sum())
    nans = 0
    if leaf.node.key_kind == "float":
        is_nan = leaf.is_nan() & keep
        nans = int(is_nan.sum())
        keep &= ~is_nan
        if zones.nan_counts is None or zones.nan_counts[i] != nans:
            raise CorruptFileError(f"zone {i}: {nans} NaNs are not what it says")
    if zones.null_counts[i] != nulls or zones.value_counts[i] != leaf.count:
        raise CorruptFileError(
            f"zone {i}: {leaf.count} values with {nulls} nulls, it says "
            f"{zones.value_counts[i]} with {zones.null_counts[i]}"
        )
    everything = encode_column(Leaf(leaf.node, None, leaf.values, leaf.count), False, False)
    _check_bounds(zones, i, [everything[j] for j in np.flatnonzero(keep)])
