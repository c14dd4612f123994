"""Merges of several parts, all processed in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import nimblepy as nb
from nimblepy.table.changing.merge_plan import Merge, MergePlan
from nimblepy.table.changing.row_commit import begin
from nimblepy.table.changing.shared_merge import (
    Outcome,
    Part,
    holds,
    outcome,
    outcome_rows,
    outcomes_of,
    rehearse,
    save_part,
    shared_merge_change,
)
from nimblepy.table.distributed import write_target
from nimblepy.table.handle import TableState
from nimblepy.table.reading.members import MemberRows
from nimblepy.table.reading.shipped import rows_as_text, rows_of_text
from nimblepy.table.writing.write import Target, discard


class Local:
    """Works on parts here, of what was sent; other commits come at given times."""

    def __init__(self, plan: MergePlan, between: Sequence[Any] = ()) -> None:
        self.plan = plan
        self.between = list(between)
        self.worked: list[list[str]] = []

    def outcomes(self, parts: Sequence[Part], rows: MemberRows, target: Target) -> list[Outcome]:
        sent = rows_of_text(rows_as_text(rows))
        done = [outcome(part, self.plan, sent, target) for part in parts]
        self.worked.append([part.path for part in parts])
        if self.between:
            self.between.pop(0)()
        sent_back = [outcome_rows(i, item) for i, item in enumerate(done)]
        return outcomes_of(pa.Table.from_batches(reversed(sent_back)), len(parts))

    def holding(self, parts: Sequence[Part], rows: MemberRows) -> list[bool]:
        sent = rows_of_text(rows_as_text(rows))
        return [holds(part, self.plan, sent) for part in parts]


def shared(
    table: nb.Table,
    data: pa.Table,
    on: Any = None,
    *,
    cuts: Sequence[Any] = (),
    between: Sequence[Any] = (),
) -> tuple[Merge, list[Local]]:
    """As ``table.merge(data)``, of parts that end before some keys."""
    locals_: list[Local] = []

    def execute(merge: Merge) -> nb.Commit:
        parts: list[Part] = []

        call = begin(TableState(table), "merge")
        try:
            plan, target = merge.plan(call.metadata), write_target(table)
            rehearse(data.schema, plan, call.table.rows(call.metadata), target)
            (key, *_) = plan.on
            keys = data.column(key).to_pylist()
            for low, high in zip([None, *cuts], [*cuts, None], strict=True):
                mine = [
                    (low is None or (k is not None and k >= low))
                    and (high is None or k is None or k < high)
                    and (k is not None or high is None)
                    for k in keys
                ]
                part = save_part(data.filter(pa.array(mine, pa.bool_())), plan, target)
                if part is not None:
                    parts.append(part)
            locals_.append(Local(plan, between))
            change = shared_merge_change(plan, parts, locals_[-1], call.metadata)
            return call.commit(change)
        finally:
            discard(parts)

    return Merge(execute, on, table.name), locals_
