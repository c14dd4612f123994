"""Two printable trees: LayoutNode describes what a file contains; Plan, what a query will read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from nimblepy.rows.html import html_text
from nimblepy.schema.types import format_bytes

# A tuple of dicts lists items, such as files, with facts about each. Only its length is printed.
DetailValue: TypeAlias = str | int | float | bool | tuple[dict[str, str | int], ...] | None


def _draw(label: str, children: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a tree: its label, then the indented lines of each child."""
    lines = [label]
    for position, child in enumerate(children):
        last = position == len(children) - 1
        lines.append(("└─ " if last else "├─ ") + child[0])
        lines.extend(("   " if last else "│  ") + line for line in child[1:])
    return lines


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan:
    """Describes what a lookup, range or scan reads. Prints as a tree.

    Attributes:
        text: a description of this step, in one line.
        details: named facts about the step, in printing order.
        children: the parts of this step, in order.
        reads: number of storage reads of the step and its children. Cached bytes are not read.
        bytes: number of bytes that these reads fetch.
        index: kind and columns of the index; ``None`` if the step does not use an index.
    """

    text: str
    details: tuple[tuple[str, DetailValue], ...] = ()
    children: tuple[Plan, ...] = ()
    reads: int = 0
    bytes: int = 0
    index: str | None = None

    def __getitem__(self, key: str) -> DetailValue:
        """Returns the detail named ``key`` of this step; ``KeyError`` if it does not exist."""
        for name, value in self.details:
            if name == key:
                return value
        raise KeyError(key)

    def walk(self) -> Iterator[Plan]:
        """Yields this step and all steps below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def to_dict(self) -> dict[str, object]:
        """Returns the tree as values that :mod:`json` can write."""
        return {
            "text": self.text,
            "index": self.index,
            "reads": self.reads,
            "bytes": self.bytes,
            "details": dict(self.details),
            "children": [child.to_dict() for child in self.children],
        }

    def _lines(self) -> list[str]:
        facts = [f"{name}={_format(value)}" for name, value in self.details]
        if self.reads or self.bytes:
            facts.append(f"{self.reads} reads, {format_bytes(self.bytes)}")
        label = f"{self.text}  ({', '.join(facts)})" if facts else self.text
        return _draw(label, [child._lines() for child in self.children])

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_text(str(self))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LayoutNode:
    """One part of a file, such as a stripe group, column or index, with the parts inside it.

    Attributes:
        name: column or section name, or ``"stripe 3"``.
        kind: ``"file"``, ``"stripe_group"``, ``"stripe"``, ``"column"``, ``"stream"``,
            ``"index"``, ``"section"``.
        rows: number of rows covered. ``None`` if the part does not correspond to rows.
        size_bytes: size of this part, including its children.
        encoding: encoding tree of a stream, such as ``dictionary(bit_packed)``.
        children: parts, in file order.
    """

    name: str
    kind: str
    rows: int | None = None
    size_bytes: int = 0
    encoding: str | None = None
    children: tuple[LayoutNode, ...] = ()

    def walk(self) -> Iterator[LayoutNode]:
        """Yields this part and all parts inside it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def to_dict(self) -> dict[str, object]:
        """Returns the tree as values that :mod:`json` can write."""
        return {
            "name": self.name,
            "kind": self.kind,
            "rows": self.rows,
            "size_bytes": self.size_bytes,
            "encoding": self.encoding,
            "children": [child.to_dict() for child in self.children],
        }

    def label(self) -> str:
        """Returns one line that describes this part without its children."""
        words = [self.name]
        if self.rows is not None:
            words.append(f"{self.rows:,} rows")
        words.append(format_bytes(self.size_bytes))
        if self.encoding:
            words.append(self.encoding)
        return "  ".join(words)

    def _lines(self) -> list[str]:
        return _draw(self.label(), [child._lines() for child in self.children])

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return str(self)


def _format(value: DetailValue) -> str:
    if isinstance(value, tuple):
        value = len(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
