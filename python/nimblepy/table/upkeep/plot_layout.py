"""Draws the layout of a table's files, as SVG or as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from nimblepy.errors import InvalidArgumentError
from nimblepy.schema.names import ColumnName, show_path
from nimblepy.table.otree.blocks import Blocks
from nimblepy.table.otree.layouts import OTree
from nimblepy.table.otree.space import Floats
from nimblepy.table.otree.tree import Numbers
from nimblepy.table.reading.fileset import FileSet
from nimblepy.table.upkeep.recluster import BOX_SHARE, Extents, Survey, extents, survey

_SIDE, _GAP, _BARS = 360, 40, 300
_BOXES = 200
_INK, _PALE, _MARK = "#1b2a41", "#8d99ae", "#d1495b"


def plot(rows: FileSet, columns: Sequence[ColumnName], cubes: Blocks) -> str:
    """Draws a map of the files by the ranks of two columns, the tree of cubes, and a bar chart.

    The bars compare how many rows box queries read in this layout and in others.

    Args:
        columns: one or more; the map shows the first two.
        cubes: the cubes of the files, as far as they are known.

    Raises:
        InvalidArgumentError: the table has no rows, or a column does not exist.

    Cost: reads a sample of the rows, and manifests.
    """
    layout = OTree(columns)
    if not len(rows.members):
        raise InvalidArgumentError(f"{rows.reading.name} has no rows to draw")
    surveyed = survey(rows, layout, cubes)
    boxes = extents(rows, layout, surveyed, cubes)
    names = [name if isinstance(name, str) else show_path(name) for name in layout.columns]
    parts = [
        _map(boxes, names, 0),
        _tree(rows, cubes, _SIDE + _GAP),
        _bars(read_by_layout(boxes, surveyed), names, 2 * (_SIDE + _GAP)),
    ]
    width, height = 2 * (_SIDE + _GAP) + _BARS + _GAP, _SIDE + 3 * _GAP
    title = f"{rows.reading.name}: {boxes.rows.sum():,} rows in {len(boxes.rows):,} files"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-{_GAP} -{_GAP} {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{_INK}">'
        f'<rect x="-{_GAP}" y="-{_GAP}" width="100%" height="100%" fill="white"/>'
        + _text(0, -18, title, size=14)
        + "".join(parts)
        + "</svg>\n"
    )


def page(svg: str, name: str) -> str:
    """Returns an HTML page that contains an SVG picture."""
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(name)}</title>\n'
        f"<body>\n{svg}</body></html>\n"
    )


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _map(boxes: Extents, columns: Sequence[str], left: int) -> str:
    """Draws files as boxes: darker if denser, larger boxes below smaller ones."""
    low, high = boxes.lower[:, :2], boxes.upper[:, :2]
    if low.shape[1] == 1:
        low = np.column_stack((low, np.zeros(len(low))))
        high = np.column_stack((high, np.ones(len(high))))
    sides = np.maximum(high - low, 0.004)
    density = np.log10(boxes.rows / sides.prod(axis=1))
    spread = max(float(np.ptp(density)), 1e-9)
    shade = 0.05 + 0.45 * (density - density.min()) / spread
    drawn = [_text(left, _SIDE + 30, f"{columns[0]}, by rank →")]
    if len(columns) > 1:
        drawn.append(_text(left, -4, f"↑ {columns[1]}, by rank"))
    for i in np.argsort(-sides.prod(axis=1)).tolist():
        x, y = left + low[i, 0] * _SIDE, (1 - low[i, 1] - sides[i, 1]) * _SIDE
        drawn.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{sides[i, 0] * _SIDE:.1f}" '
            f'height="{sides[i, 1] * _SIDE:.1f}" fill="#00798c" fill-opacity="{shade[i]:.2f}" '
            f'stroke="{_INK}" stroke-width="0.6"><title>{int(boxes.rows[i]):,} rows</title></rect>'
        )
    return "".join(drawn)


def _tree(rows: FileSet, cubes: Blocks, left: int) -> str:
    """Draws cubes by level. The width is the interval of the curve, the fill shows the rows."""
    live = set(rows.members.files.paths.to_pylist())
    is_live = np.array([path in live for path in cubes.files], np.bool_)
    if not is_live.any():
        return _text(left, 20, "no cubes: the layout is not an OTree, or its blobs are lost")
    at = np.flatnonzero(is_live[cubes.column("file")])
    facts = [cubes.column(name)[at] for name in ("bits", "prefix", "rows", "least")]
    bits, prefix, count, _ = facts
    most = max(1, int(count.max()))
    levels = np.unique(bits)
    height = min(60.0, _SIDE / len(levels))
    drawn = [_text(left, _SIDE + 30, "cubes along the curve →, deeper ones below")]
    for level, number in enumerate(levels.tolist()):
        y = level * height
        drawn.append(_text(left - 4, y + height / 2, str(number), anchor="end"))
        for i in np.flatnonzero(bits == number).tolist():
            width = max(_SIDE * 2.0**-number, 1.0)
            x = left + _SIDE * float(prefix[i]) * 2.0**-number
            full = (height - 6) * float(count[i]) / most
            drawn.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height - 6:.1f}" '
                f'fill="none" stroke="{_PALE}" stroke-width="0.5"/>'
                f'<rect x="{x:.1f}" y="{y + height - 6 - full:.1f}" width="{width:.1f}" '
                f'height="{full:.1f}" fill="#edae49" stroke="{_INK}" stroke-width="0.4">'
                f"<title>{int(count[i]):,} rows</title></rect>"
            )
    return "".join(drawn)


def _bars(read: dict[str, float], columns: Sequence[str], left: int) -> str:
    drawn = [
        _text(left, -4, f"rows read by a box of {BOX_SHARE:.0%} of the rows"),
        _text(left, _SIDE + 30, f"box over {', '.join(columns)}"),
    ]
    for i, (name, part) in enumerate(read.items()):
        y = 20 + 60 * i
        drawn.append(_text(left, y, f"{name}: {part:.1%}"))
        drawn.append(
            f'<rect x="{left}" y="{y + 6}" width="{max(1.0, (_BARS - _GAP) * part):.1f}" '
            f'height="20" fill="{_MARK if i == 0 else _PALE}"/>'
        )
    return "".join(drawn)


# ------------------------------------------------------------------ rows read by boxes


def read_by_layout(boxes: Extents, surveyed: Survey) -> dict[str, float]:
    """Returns the fraction of all rows that boxes read, in this table and in other layouts
    (sampled).
    """
    stacked = surveyed.points
    generator = np.random.default_rng(0)
    side = BOX_SHARE ** (1.0 / stacked.shape[1])
    middles = stacked[generator.integers(0, len(stacked), _BOXES)]
    low = np.clip(middles - side / 2, 0, 1 - side)
    high = low + side
    files = len(boxes.rows)
    chunk = np.arange(len(stacked)) * files // len(stacked)
    orders = {
        "sorted by the first": np.argsort(stacked[:, 0], kind="stable"),
        "Z-order": np.arange(len(stacked)),
        "as they came": generator.permutation(len(stacked)),
    }
    read = {"this table": _read(boxes.lower, boxes.upper, boxes.rows, low, high)}
    for name, order in orders.items():
        begins = np.flatnonzero(np.diff(chunk, prepend=-1))
        ordered = stacked[order]
        least = np.minimum.reduceat(ordered, begins)
        most = np.maximum.reduceat(ordered, begins)
        rows = np.diff(np.append(begins, len(stacked)))
        read[name] = _read(least, most, rows, low, high)
    return read


def _read(least: Floats, most: Floats, rows: Numbers, low: Floats, high: Floats) -> float:
    met = [
        int(rows[((least <= b) & (most >= a)).all(axis=1)].sum())
        for a, b in zip(low, high, strict=True)
    ]
    return float(np.mean(met)) / max(1, int(rows.sum()))
