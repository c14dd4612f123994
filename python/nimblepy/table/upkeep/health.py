"""Measures the health of a table: what its files and metadata cost readers and writers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

import numpy as np

from nimblepy.file.options import VectorIndex
from nimblepy.rows.html import html_text
from nimblepy.schema.types import format_bytes
from nimblepy.table import iceberg as ice
from nimblepy.table.base.model import Distinct, Entry, Manifest
from nimblepy.table.iceberg.manifests import FileColumns, Numbers
from nimblepy.table.otree.layouts import OTree
from nimblepy.table.reading import plan_index
from nimblepy.table.reading.fileset import FileSet, key_ends
from nimblepy.table.upkeep.compact import MOST_DEEP, MOST_DELETED, SMALL, Group, choose
from nimblepy.table.upkeep.index_parquet import Coverage
from nimblepy.table.upkeep.maintain import expired_by_advice
from nimblepy.table.upkeep.recluster import Drift, drift
from nimblepy.table.upkeep.reindex import coverage
from nimblepy.table.upkeep.rewrite import can_be_better
from nimblepy.table.writing.settings import target_of
from nimblepy.table.writing.write import Target

Action = Literal[
    "compact",
    "convert_deletes",
    "optimize_layout",
    "rewrite_manifests",
    "expire",
    "analyze",
    "add_index",
]

# Merging manifests is advised if a partition is in more than this many.
_MANY_SMALL = 0.25
# Acceptable number of manifests, and of their files, outside the plan index.
_MOST_UNCOVERED, _MOST_UNCOVERED_FILES = 16, 20_000
_MOST_A_PARTITION = 4
# Fraction of rows that may change before a new analysis is advised.
_MOST_CHANGED = 0.2
# Maximum number of columns whose distinct counts are shown.
_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The distribution of some numbers."""

    min: int = 0
    median: int = 0
    p90: int = 0
    max: int = 0

    def __str__(self) -> str:
        return f"{self.min:,} / {self.median:,} / {self.p90:,} / {self.max:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCost:
    """The cost of a plan.

    Attributes:
        what: the rows that the plan looks for.
        files: data files that may have them.
        reads: metadata files that a new process reads.
    """

    what: str
    files: int
    reads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """An action that would improve the table.

    Attributes:
        action: name of the method of the table.
        why: the reason, in words.
    """

    action: Action
    why: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Health:
    """The health of a table. Its text form includes the advice.

    Attributes:
        files, bytes, rows: data files, their bytes, and their rows including deleted rows.
        live_rows: rows that are not deleted.
        small_files: files smaller than three quarters of the target size.
        delete_files: number of delete files.
        files_with_deletes: data files with deleted rows.
        deleted_share: deleted rows as a share of all rows.
        overlap_depth: maximum number of files of one partition that may have the same key.
        partitions: number of partitions.
        manifests: number of manifests with data files.
        manifests_per_partition: manifests with files of a partition.
        entries_per_manifest: files in a manifest.
        file_bytes: bytes of data files.
        uncovered_manifests: manifests outside the plan index; all if there is no index.
        snapshots: number of snapshots.
        boxes_read, boxes_ideal: share of the rows that a box query for 1 % of them reads, on
            average; now, and if all rows were written at once. ``None`` unless the layout is an
            OTree.
        metadata_bytes: bytes of the metadata, manifests and plan index of the newest snapshot.
        next_commit_bytes: bytes of metadata that a commit of one file writes.
        distinct: estimated distinct counts by column, from the newest statistics; empty if the
            table was not analyzed.
        index_coverage: share of the rows whose files have an index, by secondary index.
        index_files: number of files that have it, or that an index of Parquet files covers.
        files_without_lists: by vector index, how many of these files are too small for lists.
            ``nearest`` compares all of their rows.
        plans: costs of typical plans.
        advice: advised actions, the most useful first.
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
    index_coverage: Mapping[str, float] = field(default_factory=dict)
    index_files: Mapping[str, int] = field(default_factory=dict)
    files_without_lists: Mapping[str, int] = field(default_factory=dict)

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
        for name, covered in self.index_coverage.items():
            few = self.files_without_lists.get(name, 0)
            lines.append(
                f"  index                {name}: {covered:.0%} of the rows, "
                f"{self.index_files[name]:,} files"
                + (f"; {few:,} are too small for lists" if few else "")
            )
        for plan in self.plans:
            lines.append(f"  plan of {plan.what}: {plan.files:,} files, {plan.reads:,} reads")
        lines += [f"  -> {item.action}(): {item.why}" for item in self.advice]
        return "\n".join(lines if self.advice else [*lines, "  nothing to be done"])

    def _repr_html_(self) -> str:
        return html_text(repr(self))

    def to_svg(self) -> str:
        """Draws manifests over partitions, and files over manifests."""
        return _picture(self)


def health(rows: FileSet, metadata: ice.Metadata) -> Health:
    """Measures the health of the newest snapshot of a table.

    Cost: describes all files, from the plan index or the manifests outside it, and reads delete
    files. It opens data files only if the layout is an OTree, to read a sample of its columns; if
    bounds of long texts overlap; or if the table has secondary indexes.
    """
    head = metadata.head()
    members, plan = rows.members, rows.plan
    files = members.files
    target = target_of(metadata)
    layout = target.layout
    small = int((files.sizes < SMALL * target.target_bytes).sum())
    deletes = plan.delete_files()
    total_rows = int(files.rows.sum())
    deleted_rows = files.rows - np.diff(rows.first_rows)
    deleted = int(deleted_rows.sum())
    manifests = [item for item in plan.manifests if not item.deletes]
    parts = plan_index.parts_of(metadata, head)
    _, beside = plan_index.covered(parts, manifests)
    codes, counts = _partitions(rows, metadata)
    entries = [item.files for item in manifests]
    listed = [*(item.bytes for item in plan.manifests)]
    index_bytes = plan_index.stored_bytes_of(metadata, head) if parts else 0
    # An entry of the manifest list has about 150 bytes; a manifest of one file has some thousand.
    list_bytes = 150 * len(plan.manifests) + 2000
    document = metadata.document_bytes()
    depth = _depth(rows, codes)
    per_manifest = _spread(entries)
    per_partition = _spread(list(counts.values()))
    share = deleted / total_rows if total_rows else 0.0
    kept = len(metadata.snapshots)
    drifted = None
    covered = coverage(rows, metadata)
    if isinstance(layout, OTree):
        drifted = drift(rows, layout, metadata.cubes(head))
        advised = {"optimize_layout": _layout(drifted)}
    else:
        # Choosing files is expensive: first check cheaply if a compaction could be worth it.
        many = small >= max(2, _MANY_SMALL * len(files))
        maybe = many or share >= MOST_DELETED or depth > MOST_DEEP
        chosen = choose(rows, None, target, where_needed=True) if maybe else []
        advised = {"compact": _compaction(chosen, len(files), target, share, depth, covered)}
    counts_of = ice.distinct_values(metadata, head)
    names = {number: metadata.column_name(number) for number in counts_of}
    reasons = advised | {
        # A compaction converts them too.
        "convert_deletes": None if advised.get("compact") else _conversion(deletes),
        "rewrite_manifests": _rewriting(per_partition, beside)
        if can_be_better(manifests, beside, metadata)
        else None,
        "expire": None
        if not expired_by_advice(metadata)
        else f"{kept:,} snapshots make the metadata larger and keep old files",
        "analyze": _analysis(metadata, counts_of.values(), total_rows),
        "add_index": _extension(covered, len(files)) if target.data_format == "parquet" else None,
    }
    return Health(
        name=".".join(metadata.name),
        files=len(files),
        bytes=int(files.sizes.sum()),
        rows=total_rows,
        live_rows=total_rows - deleted,
        small_files=small,
        delete_files=len(deletes),
        files_with_deletes=int(np.count_nonzero(deleted_rows)),
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
            for action, why in reasons.items()
            if why is not None
        ),
        boxes_read=None if drifted is None else drifted.read,
        boxes_ideal=None if drifted is None else drifted.ideal,
        distinct={
            name: counts_of[number].values for number, name in names.items() if name is not None
        },
        index_coverage={name: item.share for name, item in covered.items()},
        index_files={name: item.files for name, item in covered.items()},
        files_without_lists={
            name: item.without_lists for name, item in covered.items() if item.without_lists
        },
    )


def _extension(covered: Mapping[str, Coverage], files: int) -> str | None:
    """Returns why indexes of Parquet files should cover more files."""
    short = {name: files - item.files for name, item in covered.items() if item.files < files}
    if not short:
        return None
    return "; ".join(f"{name} does not cover {count:,} files" for name, count in short.items())


def _spread(numbers: Sequence[int]) -> Spread:
    if not len(numbers):
        return Spread()
    least, median, p90, most = np.percentile(numbers, [0, 50, 90, 100], method="nearest").tolist()
    return Spread(min=int(least), median=int(median), p90=int(p90), max=int(most))


def _partitions(rows: FileSet, metadata: ice.Metadata) -> tuple[Numbers, Counter[int]]:
    """Returns the partition number of each file, and the number of manifests of each partition."""
    numbers: dict[Any, int] = {}
    kinds = metadata.partition_types()
    files = rows.members.files
    per_part = []
    pairs: set[tuple[int, int, int]] = set()
    for i, part in enumerate(files.parts):
        codes = _codes(part, kinds.get(part.spec_id, []), numbers)
        both = np.unique(np.column_stack((codes, part.manifest_numbers)), axis=0)
        pairs.update((int(code), i, int(number)) for code, number in both)
        per_part.append(codes)
    counts = Counter(code for code, _, _ in pairs)
    return files.gather(per_part, np.int64), counts


def _codes(
    part: FileColumns, fields: Sequence[tuple[int, Any]], numbers: dict[Any, int]
) -> Numbers:
    columns = [part.partition(i, kind).to_pylist() for i, (_, kind) in enumerate(fields)]
    if not columns:
        return np.full(part.num_files, numbers.setdefault((part.spec_id,), len(numbers)))
    values = zip(*columns, strict=True)
    codes = [numbers.setdefault((part.spec_id, *value), len(numbers)) for value in values]
    return np.array(codes, dtype=np.int64)


def _per(codes: Numbers) -> Numbers:
    """Returns the number of files of each partition."""
    return np.bincount(codes) if len(codes) else np.zeros(0, dtype=np.int64)


def _depth(rows: FileSet, codes: Numbers) -> int:
    """Returns the maximum number of files of one partition that may have the same key."""
    if not rows.cluster_by or not len(codes):
        return 0
    lower, upper = (ends.to_pylist() for ends in key_ends(rows.reading, rows.members))
    partitions: dict[int, list[int]] = {}
    for i, code in enumerate(codes.tolist()):
        partitions.setdefault(code, []).append(i)
    most = 0
    for files in partitions.values():
        ends = sorted([(lower[i], 0) for i in files] + [(upper[i], 1) for i in files])
        depth = 0
        for _, is_end in ends:
            depth += -1 if is_end else 1
            most = max(most, depth)
    return most


def _plans(
    rows: FileSet, codes: Numbers, manifests: Counter[int], beside: int, parts: int
) -> tuple[PlanCost, ...]:
    """Returns the costs of planning all rows, the middle partition, and the middle key."""
    if not len(codes):
        return ()
    # The metadata file, the manifest list, and the plan index.
    first = 2 + parts
    per = np.sort(_per(codes))
    plans = [PlanCost(what="all rows", files=len(codes), reads=first + beside)]
    middle = int(per[len(per) // 2])
    lists = sorted(manifests.values())[len(manifests) // 2]
    reads = first + min(beside, lists)
    plans.append(PlanCost(what="one partition", files=middle, reads=reads))
    if rows.cluster_by:
        lower, upper = (ends.to_pylist() for ends in key_ends(rows.reading, rows.members))
        key = sorted(lower)[len(lower) // 2]
        some = sum(a <= key <= b for a, b in zip(lower, upper, strict=True))
        plans.append(PlanCost(what="one key", files=some, reads=first + beside))
    return tuple(plans)


def _compaction(
    chosen: Sequence[Group],
    files: int,
    target: Target,
    share: float,
    depth: int,
    covered: Mapping[str, Coverage],
) -> str | None:
    """Returns the reason to compact; ``None`` if a compaction would replace too little."""
    if not chosen:
        return None
    why = []
    sizes = [member.file.bytes for group in chosen for member in group.members]
    small = sum(size < SMALL * target.target_bytes for size in sizes)
    if small >= max(2, _MANY_SMALL * files):
        why.append(f"{small:,} of {files:,} files are small")
        vectors = any(isinstance(index, VectorIndex) for index in target.indexes)
        if vectors and target.data_format == "nimble":
            few = max(item.without_lists for item in covered.values())
            why.append(
                f"nearest() compares all rows of {few:,} files, which are too small for lists"
                if few
                else f"nearest() searches lists in each of {files:,} files"
            )
    if share >= MOST_DELETED:
        why.append(f"{share:.0%} of the rows are deleted")
    if depth > MOST_DEEP:
        why.append(f"a key may be in {depth:,} files of one partition")
    return "; ".join(why) or None


def _conversion(deletes: Sequence[Entry]) -> str | None:
    by_key = sum(entry.file.content == "equality deletes" for entry in deletes)
    if not by_key:
        return None
    return f"every process looks the keys of {by_key:,} equality delete files up in older files"


def _layout(drifted: Drift | None) -> str | None:
    if drifted is None or not drifted.files:
        return None
    size = format_bytes(drifted.bytes)
    return (
        f"{drifted.files:,} files with {size} no longer fit the tree of all rows, or have "
        "many deleted rows"
    )


def _rewriting(per_partition: Spread, beside: Sequence[Manifest]) -> str | None:
    why = []
    files = sum(item.files for item in beside)
    if per_partition.p90 > _MOST_A_PARTITION:
        why.append(f"a partition is in {per_partition.p90:,} manifests")
    if len(beside) > _MOST_UNCOVERED or files > _MOST_UNCOVERED_FILES:
        why.append(f"{len(beside):,} manifests with {files:,} files are not in the plan index")
    return "; ".join(why) or None


def _analysis(metadata: ice.Metadata, distinct: Iterable[Distinct], rows: int) -> str | None:
    """Returns the reason to analyze an analyzed table again; ``None`` if it changed too little."""
    analyzed = [metadata.snapshot(number) for number in {item.snapshot for item in distinct}]
    counts = [
        count
        for snapshot in analyzed
        if snapshot is not None and (count := snapshot.figure("total-records")) is not None
    ]
    changed = max((abs(rows - count) for count in counts), default=0)
    if changed <= _MOST_CHANGED * rows:
        return None
    return f"{changed:,} rows were added or deleted since distinct values were counted"


# ------------------------------------------------------------------ picture

_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 16px; font-weight: 600 }
  rect { fill: #0969da }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } rect { fill: #4493f8 } }
"""


def _picture(health: Health) -> str:
    shown: list[tuple[str, Spread, Callable[[int], str]]] = [
        ("manifests of a partition", health.manifests_per_partition, lambda n: f"{n:,}"),
        ("files of a manifest", health.entries_per_manifest, lambda n: f"{n:,}"),
        ("bytes of a file", health.file_bytes, format_bytes),
    ]
    lines = [f'<text class="title" x="8" y="24">{escape(health.name)}</text>']
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
    for item in health.advice:
        lines.append(f'<text x="8" y="{y + 14}">{item.action}(): {escape(item.why)}</text>')
        y += 20
    body = "\n".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {y + 8}" width="720" '
        f'height="{y + 8}" role="img" aria-label="{escape(health.name)}">\n'
        f"<style>{_STYLE}</style>\n{body}\n</svg>\n"
    )
