"""Merges and changes of columns that were put together and then dropped say so."""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Callable

import pyarrow as pa
import pytest

import nimblepy as nb

CHANGES = {"id": [1], "v": [5]}


@pytest.fixture
def table(lake: nb.Catalog) -> nb.Table:
    return lake.create_table("shop.users", pa.table({"id": [1], "v": [1]}), primary_key="id")


def _warned(make: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = make()
        del made
        gc.collect()
    return [str(item.message) for item in caught if item.category is ResourceWarning]


# Nothing happened, and nothing said so.
def test_a_merge_without_execute(table: nb.Table) -> None:
    (said,) = _warned(
        lambda: (
            table.merge(CHANGES)
            .when_matched(delete=True, condition="source.v = 5")
            .when_not_matched(insert=["id"])
        )
    )
    assert said.startswith("shop.users: the merge when_matched(delete=True, ")
    assert (
        "condition='source.v = 5'), when_not_matched(insert=['id']) was not run; call execute()"
        in said
    )
    assert table.refresh().num_rows == 1


def test_an_alter_without_with(table: nb.Table) -> None:
    (said,) = _warned(lambda: table.alter().add_column("w", pa.int64()).drop_column("v"))
    assert said.startswith("shop.users: alter() was not committed: add_column, drop_column; ")
    assert table.refresh().schema.names == ["id", "v"]


def test_what_was_done_or_given_up_is_silent(table: nb.Table) -> None:
    def fails() -> None:
        with pytest.raises(nb.InvalidArgumentError):
            table.merge(CHANGES).when_matched(delete=True).when_matched()
        with pytest.raises(nb.InvalidArgumentError):
            table.merge(CHANGES).when_matched(delete=True, condition="no = 1").execute()
        with contextlib.suppress(RuntimeError), table.alter() as change:
            change.add_column("w", pa.int64())
            raise RuntimeError

    assert _warned(fails) == []
    assert _warned(lambda: table.merge(CHANGES)) == []
    assert _warned(lambda: table.alter()) == []
    assert _warned(lambda: table.merge(CHANGES).when_matched(update=True).execute()) == []

    def altered() -> None:
        with table.alter() as change:
            change.add_column("w", pa.int64())

    assert _warned(altered) == []


def test_reprs(table: nb.Table) -> None:
    merge = table.merge(CHANGES).when_matched(update={"v": "source.v"})
    assert repr(merge) == (
        "<nimblepy.Merge into 'shop.users': when_matched(update={'v': 'source.v'}); not executed>"
    )
    merge.execute()
    assert repr(merge).endswith("; done>")
    with table.alter() as change:
        change.add_column("w", pa.int64())
        assert repr(change) == "<nimblepy.Alter of 'shop.users': add_column; not committed>"
    assert repr(change).endswith("; done>")
