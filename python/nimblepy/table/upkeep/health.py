"""How a table is: what its files and its metadata cost those who read and write it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

import numpy as np

from nimblepy.schema.types import format_bytes
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import Distinct, Manifest
from nimblepy.table.iceberg.manifests import FileColumns, Numbers
from nimblepy.table.otree.layouts import OTree
from nimblepy.table.reading import plan_index
from nimblepy.table.reading.fileset import FileSet, key_ends
from nimblepy.table.upkeep.compact import MOST_DEEP, MOST_DELETED, SMALL, Group, choose
from nimblepy.table.upkeep.maintain import expired_by_advice
from nimblepy.table.upkeep.recluster import Drift, drift
from nimblepy.table.upkeep.rewrite import can_be_better
from nimblepy.table.writing.settings import target_of
from nimblepy.table.writing.write import Target

Action = Literal["compact", "optimize_layout", "rewrite_manifests", "expire", "analyze"]

# A file for each of these is advised to be merged.
_MANY_SMALL = 0.25
# Manifests and files beside the plan index, which are read one by one.
_MOST_UNCOVERED, _MOST_UNCOVERED_FILES = 16, 20_000
_MOST_A_PARTITION = 4
# How many rows may have come or gone since columns were analyzed, as a share of all.
_MOST_CHANGED = 0.2
# Columns whose different values are shown.
_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How some numbers are spread."""

    min: int = 0
    median: int = 0
    p90: int = 0
    max: int = 0

    def __str__(self) -> str:
        return f"{self.min:,} / {self.median:,} / {self.p90:,} / {self.max:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCost:
    """What a plan costs.

    Attributes:
        what: which rows are asked for.
        files: data files that may have them.
        reads: files of metadata that are read, by a process that has read none of them.
    """

    what: str
    files: int
    reads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Something that would make the table better.

    Attributes:
        action: the method of the table that does it.
        why: in words.
    """

    action: Action
    why: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Health:
    """How a table is. Its text says it in words, with advice.

    Attributes:
        files, bytes, rows: data files, their bytes, and their rows, deleted ones included.
        live_rows: rows that are not deleted, which is what the table has.
        small_files: files smaller than three quarters of what new files are to have.
        delete_files: files that say which rows are deleted.
        files_with_deletes: data files that have deleted rows.
        deleted_share: the part of all rows that is deleted.
        overlap_depth: the most files of one partition that may have the same key.
        partitions: how many there are.
        manifests: lists of data files.
        manifests_per_partition: manifests that have files of a partition.
        entries_per_manifest: files in a manifest.
        file_bytes: of the data files.
        uncovered_manifests: manifests that the plan index does not cover, all where there is none.
        snapshots: how many are kept.
        boxes_read, boxes_ideal: the part of the rows that files which a box of one per cent of them
            meets have, on average, and what it would be if all rows were written at once; ``None``
            where the layout is no OTree.
        metadata_bytes: of the newest snapshot's metadata, manifests and plan index.
        next_commit_bytes: of the metadata that a commit of one file writes.
        distinct: about how many different values columns have, as the newest statistics say, by
            name; empty where the table was not analyzed.
        plans: what typical plans cost.
        advice: what to do, the most useful first.
    """

    name: str
    files: int
    bytes: int
    rows: int
    live_rows: int
    small_files: int
    delete_files: int
    files_with_deletes: int
    deleted_share: float
    overlap_depth: int
    partitions: int
    manifests: int
    manifests_per_partition: Spread
    entries_per_manifest: Spread
    file_bytes: Spread
    uncovered_manifests: int
    snapshots: int
    metadata_bytes: int
    next_commit_bytes: int
    plans: tuple[PlanCost, ...]
    advice: tuple[Advice, ...]
    boxes_read: float | None = None
    boxes_ideal: float | None = None
    distinct: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        lines = [
            f"{self.name}: {self.files:,} files, {format_bytes(self.bytes)}, "
            f"{self.live_rows:,} rows",
            f"  small files          {self.small_files:,}",
            f"  overlap depth        {self.overlap_depth:,}",
            f"  deleted rows         {self.rows - self.live_rows:,}, {self.deleted_share:.1%}, in "
            f"{self.files_with_deletes:,} files; {self.delete_files:,} delete files",
            f"  partitions           {self.partitions:,}",
            f"  manifests            {self.manifests:,}, "
            f"{self.uncovered_manifests:,} beside the plan index",
            "                       min / median / p90 / max",
            f"  manifests/partition  {self.manifests_per_partition}",
            f"  files/manifest       {self.entries_per_manifest}",
            f"  bytes/file           {self.file_bytes}",
            f"  snapshots            {self.snapshots:,}",
            f"  metadata             {format_bytes(self.metadata_bytes)}, the next commit writes "
            f"{format_bytes(self.next_commit_bytes)}",
        ]
        if self.boxes_read is not None:
            lines.append(
                f"  a box of 1 % reads   {self.boxes_read:.1%} of the rows, "
                f"{self.boxes_ideal:.1%} if they were written at once"
            )
        if self.distinct:
            shown = [f"{name} {count:,}" for name, count in self.distinct.items()]
            rest = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
            lines.append(f"  different values     {', '.join(shown[:_SHOWN])}{rest}")
        for plan in self.plans:
            lines.append(f"  plan of {plan.what}: {plan.files:,} files, {plan.reads:,} reads")
        lines += [f"  -> {item.action}(): {item.why}" for item in self.advice]
        return "\n".join(lines if self.advice else [*lines, "  nothing to be done"])

    def to_svg(self) -> str:
        """A picture: how manifests are spread over partitions, and files over manifests."""
        return _picture(self)


def health(rows: FileSet, metadata: ice.Metadata) -> Health:
    """Judges the newest snapshot of a table.

    Cost: describes all files, from the plan index or the manifests that it does not cover, and
        reads delete files. Data files are opened only where the layout is an OTree: a sample of its
        columns is read; and where files overlap by what is known of long texts.
    """
    head = metadata.head()
    members, plan = rows.members, rows.plan
    files = members.files
    target = target_of(metadata)
    layout = target.layout
    small = int((files.sizes < SMALL * target.target_bytes).sum())
    deletes = plan.delete_files()
    total_rows = int(files.rows.sum())
    gone = files.rows - np.diff(rows.first_rows)
    deleted = int(gone.sum())
    manifests = [item for item in plan.manifests if not item.deletes]
    parts = plan_index.parts_of(metadata, head)
    _, beside = plan_index.covered(parts, manifests)
    codes, counts = _partitions(rows, metadata)
    entries = [item.files for item in manifests]
    listed = [*(item.bytes for item in plan.manifests)]
    index_bytes = plan_index.stored_bytes_of(metadata, head) if parts else 0
    # Of a manifest, its list says some 150 bytes; a manifest of one file has some thousands.
    list_bytes = 150 * len(plan.manifests) + 2000
    document = metadata.document_bytes()
    depth = _depth(rows, codes)
    per_manifest = _spread(entries)
    per_partition = _spread(list(counts.values()))
    share = deleted / total_rows if total_rows else 0.0
    kept = len(metadata.snapshots)
    drifted = None
    if isinstance(layout, OTree):
        drifted = drift(rows, layout, metadata.cubes(head))
        advised = {"optimize_layout": _layout(drifted)}
    else:
        # To choose files costs more than to see that it would not be worth it.
        many = small >= max(2, _MANY_SMALL * len(files))
        maybe = many or share >= MOST_DELETED or depth > MOST_DEEP
        chosen = choose(rows, None, target, where_needed=True) if maybe else []
        advised = {"compact": _compaction(chosen, len(files), target, share, depth)}
    counts_of = ice.distinct_values(metadata, head)
    names = {number: metadata.column_name(number) for number in counts_of}
    found = advised | {
        "rewrite_manifests": _rewriting(per_partition, beside)
        if can_be_better(manifests, beside, metadata)
        else None,
        "expire": None
        if not expired_by_advice(metadata)
        else f"{kept:,} snapshots are kept; each makes the metadata larger, and holds its files",
        "analyze": _analysis(metadata, counts_of.values(), total_rows),
    }
    return Health(
        name=".".join(metadata.name),
        files=len(files),
        bytes=int(files.sizes.sum()),
        rows=total_rows,
        live_rows=total_rows - deleted,
        small_files=small,
        delete_files=len(deletes),
        files_with_deletes=int(np.count_nonzero(gone)),
        deleted_share=share,
        overlap_depth=depth,
        partitions=len(counts),
        manifests=len(manifests),
        manifests_per_partition=per_partition,
        entries_per_manifest=per_manifest,
        file_bytes=_spread(files.sizes.tolist()),
        uncovered_manifests=len(beside),
        snapshots=kept,
        metadata_bytes=document + list_bytes + sum(listed) + index_bytes,
        next_commit_bytes=document + list_bytes + 4000,
        plans=_plans(rows, codes, counts, len(beside), len(parts)),
        advice=tuple(
            Advice(action=action, why=why)  # type: ignore[arg-type]
            for action, why in found.items()
            if why is not None
        ),
        boxes_read=None if drifted is None else drifted.read,
        boxes_ideal=None if drifted is None else drifted.ideal,
        distinct={
            name: counts_of[number].values for number, name in names.items() if name is not None
        },
    )


def _spread(numbers: Sequence[int]) -> Spread:
    if not len(numbers):
        return Spread()
    least, median, p90, most = np.percentile(numbers, [0, 50, 90, 100], method="nearest").tolist()
    return Spread(min=int(least), median=int(median), p90=int(p90), max=int(most))


def _partitions(rows: FileSet, metadata: ice.Metadata) -> tuple[Numbers, Counter[int]]:
    """The partition of each file, as a number, and the manifests that each partition is in."""
    known: dict[Any, int] = {}
    kinds = metadata.partition_types()
    files = rows.members.files
    per_part = []
    pairs: set[tuple[int, int, int]] = set()
    for i, part in enumerate(files.parts):
        codes = _codes(part, kinds.get(part.spec_id, []), known)
        both = np.unique(np.column_stack((codes, part.manifest_numbers)), axis=0)
        pairs.update((int(code), i, int(number)) for code, number in both)
        per_part.append(codes)
    counts = Counter(code for code, _, _ in pairs)
    return files.gather(per_part, np.int64), counts


def _codes(part: FileColumns, fields: Sequence[tuple[int, Any]], known: dict[Any, int]) -> Numbers:
    columns = [part.partition(i, kind).to_pylist() for i, (_, kind) in enumerate(fields)]
    if not columns:
        return np.full(part.num_files, known.setdefault((part.spec_id,), len(known)))
    values = zip(*columns, strict=True)
    found = [known.setdefault((part.spec_id, *value), len(known)) for value in values]
    return np.array(found, dtype=np.int64)


def _per(codes: Numbers) -> Numbers:
    """Files of each partition."""
    return np.bincount(codes) if len(codes) else np.zeros(0, dtype=np.int64)


def _depth(rows: FileSet, codes: Numbers) -> int:
    """The most files of one partition that may have the same key."""
    if not rows.cluster_by or not len(codes):
        return 0
    lower, upper = (ends.to_pylist() for ends in key_ends(rows.reading, rows.members))
    partitions: dict[int, list[int]] = {}
    for i, code in enumerate(codes.tolist()):
        partitions.setdefault(code, []).append(i)
    most = 0
    for mine in partitions.values():
        ends = sorted([(lower[i], 0) for i in mine] + [(upper[i], 1) for i in mine])
        depth = 0
        for _, is_end in ends:
            depth += -1 if is_end else 1
            most = max(most, depth)
    return most


def _plans(
    rows: FileSet, codes: Numbers, manifests: Counter[int], beside: int, parts: int
) -> tuple[PlanCost, ...]:
    """Of all rows, of a partition in the middle, and of a key in the middle."""
    if not len(codes):
        return ()
    # The metadata, the manifest list, and the plan index.
    first = 2 + parts
    per = np.sort(_per(codes))
    found = [PlanCost(what="all rows", files=len(codes), reads=first + beside)]
    middle = int(per[len(per) // 2])
    lists = sorted(manifests.values())[len(manifests) // 2]
    reads = first + min(beside, lists)
    found.append(PlanCost(what="one partition", files=middle, reads=reads))
    if rows.cluster_by:
        lower, upper = (ends.to_pylist() for ends in key_ends(rows.reading, rows.members))
        key = sorted(lower)[len(lower) // 2]
        some = sum(a <= key <= b for a, b in zip(lower, upper, strict=True))
        found.append(PlanCost(what="one key", files=some, reads=first + beside))
    return tuple(found)


def _compaction(
    chosen: Sequence[Group], files: int, target: Target, share: float, depth: int
) -> str | None:
    """Why to compact, of what a compaction would replace; ``None``: nothing, or too little."""
    if not chosen:
        return None
    why = []
    sizes = [member.file.bytes for group in chosen for member in group.members]
    small = sum(size < SMALL * target.target_bytes for size in sizes)
    if small >= max(2, _MANY_SMALL * files):
        why.append(f"{small:,} of {files:,} files are small")
    if share >= MOST_DELETED:
        why.append(f"{share:.0%} of the rows are deleted")
    if depth > MOST_DEEP:
        why.append(f"a key may be in {depth:,} files of one partition")
    return "; ".join(why) or None


def _layout(drifted: Drift | None) -> str | None:
    if drifted is None or not drifted.files:
        return None
    size = format_bytes(drifted.bytes)
    return (
        f"{drifted.files:,} files with {size} are not where a tree of all rows has them, or have "
        "many deleted rows"
    )


def _rewriting(per_partition: Spread, beside: Sequence[Manifest]) -> str | None:
    why = []
    files = sum(item.files for item in beside)
    if per_partition.p90 > _MOST_A_PARTITION:
        why.append(f"a partition is in {per_partition.p90:,} manifests")
    if len(beside) > _MOST_UNCOVERED or files > _MOST_UNCOVERED_FILES:
        why.append(f"{len(beside):,} manifests with {files:,} files are read for plans one by one")
    return "; ".join(why) or None


def _analysis(metadata: ice.Metadata, known: Iterable[Distinct], rows: int) -> str | None:
    """Where the table was analyzed, and is no longer what it was then."""
    then = [metadata.snapshot(number) for number in {item.snapshot for item in known}]
    counts = [
        count
        for snapshot in then
        if snapshot is not None and (count := snapshot.figure("total-records")) is not None
    ]
    changed = max((abs(rows - count) for count in counts), default=0)
    if changed <= _MOST_CHANGED * rows:
        return None
    return f"{changed:,} rows came or went since the different values of columns were counted"


# ------------------------------------------------------------------ picture

_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 16px; font-weight: 600 }
  rect { fill: #0969da }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } rect { fill: #4493f8 } }
"""


def _picture(found: Health) -> str:
    shown: list[tuple[str, Spread, Callable[[int], str]]] = [
        ("manifests of a partition", found.manifests_per_partition, lambda n: f"{n:,}"),
        ("files of a manifest", found.entries_per_manifest, lambda n: f"{n:,}"),
        ("bytes of a file", found.file_bytes, format_bytes),
    ]
    lines = [f'<text class="title" x="8" y="24">{escape(found.name)}</text>']
    y = 44
    for title, spread, text in shown:
        lines.append(f'<text x="8" y="{y + 14}">{title}</text>')
        y += 22
        for name in ("min", "median", "p90", "max"):
            value = getattr(spread, name)
            width = 2 + 420 * value / max(1, spread.max)
            lines.append(
                f'<text x="112" y="{y + 14}" text-anchor="end">{name}</text>'
                f'<rect x="120" y="{y + 2}" width="{width:.1f}" height="14" rx="2"/>'
                f'<text x="{128 + width:.1f}" y="{y + 14}">{text(value)}</text>'
            )
            y += 20
        y += 8
    for item in found.advice:
        lines.append(f'<text x="8" y="{y + 14}">{item.action}(): {escape(item.why)}</text>')
        y += 20
    body = "\n".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {y + 8}" width="720" '
        f'height="{y + 8}" role="img" aria-label="{escape(found.name)}">\n'
        f"<style>{_STYLE}</style>\n{body}\n</svg>\n"
    )
