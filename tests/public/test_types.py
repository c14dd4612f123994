"""Values of the public API: equality, printing, and what importing the package costs."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from importlib.util import find_spec

import pytest

import nimblepy as nb
from nimblepy.rows.plan import LayoutNode, Plan
from nimblepy.schema.types import (
    ColumnSummary,
    FileSummary,
    IoStats,
    SortKey,
    StartsWith,
    as_sort_keys,
    format_bytes,
    parse_sort_keys,
    starts_with,
)

pytestmark = pytest.mark.sanitizer

CORE = find_spec("nimblepy._core") is not None


def test_sort_key_defaults_to_ascending_nulls_last() -> None:
    key = SortKey("a")
    assert (key.descending, key.nulls_first) == (False, False)
    assert repr(SortKey("a", descending=True)) == "SortKey('a', descending=True)"
    assert str(SortKey("a", descending=True, nulls_first=True)) == "a desc nulls first"
    assert eval(repr(key)) == key
    assert len({key, SortKey("a")}) == 1


@pytest.mark.parametrize("arguments", [("",), (1,)])
def test_sort_key_without_name_is_refused(arguments: tuple[object, ...]) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="column must be a non-empty str"):
        SortKey(*arguments)  # type: ignore[arg-type]


def test_sort_key_flags_are_keyword_only_bools() -> None:
    with pytest.raises(TypeError):
        SortKey("a", True)  # type: ignore[misc]
    with pytest.raises(nb.InvalidArgumentError, match="descending must be bool, got 'yes'"):
        SortKey("a", descending="yes")  # type: ignore[arg-type]


def test_as_sort_keys_accepts_every_form() -> None:
    assert as_sort_keys(None) == ()
    assert as_sort_keys("a") == (SortKey("a"),)
    assert as_sort_keys(["a", SortKey("b", descending=True)])[1].descending
    with pytest.raises(nb.InvalidArgumentError, match="'a' is given more than once"):
        as_sort_keys(["a", "b", "a"])
    with pytest.raises(nb.InvalidArgumentError, match="sort key 3: expected"):
        as_sort_keys(["a", 3])  # type: ignore[list-item]


def test_parse_sort_keys_reads_order_by_text() -> None:
    assert parse_sort_keys("a, b DESC nulls first, c asc NULLS LAST") == (
        SortKey("a"),
        SortKey("b", descending=True, nulls_first=True),
        SortKey("c"),
    )
    for bad in ("a up", "", "a,", "a desc nulls"):
        with pytest.raises(nb.InvalidArgumentError, match="expected `name"):
            parse_sort_keys(bad)


def test_starts_with_marks_text_and_bytes() -> None:
    assert starts_with("ab") == StartsWith("ab")
    with pytest.raises(nb.InvalidArgumentError, match="expected str or bytes, got 3"):
        starts_with(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB"), (1 << 50, "1.0 PiB")],
)
def test_bytes_are_printed_with_binary_units(size: int, text: str) -> None:
    assert format_bytes(size) == text


def test_file_summary_prints_totals_and_columns() -> None:
    columns = (ColumnSummary(name="k", encoding="delta", size_bytes=2048),)
    summary = FileSummary(
        num_rows=1000, size_bytes=4096, index_bytes=1024, stripes=1, columns=columns
    )
    assert str(summary).splitlines() == [
        "1,000 rows in 1 stripe, 4.0 KiB, of which 1.0 KiB index, 4.10 bytes per row",
        "  k     2.0 KiB  delta",
    ]
    assert "1,000 rows" in repr(summary)
    assert pickle.loads(pickle.dumps(summary)) == summary


def test_io_stats_subtract() -> None:
    before, after = IoStats(reads=1, bytes_read=10), IoStats(reads=3, bytes_read=25, rounds=1)
    assert after - before == IoStats(reads=2, bytes_read=15, rounds=1)


def test_plan_prints_as_tree() -> None:
    leaf = Plan(text="read key chunk", details=(("chunk", 3), ("exact", True)), reads=1, bytes=2048)
    middle = Plan(text="search index", children=(leaf, leaf))
    plan = Plan(text="lookup", children=(middle, leaf), reads=3, bytes=6144, index="cluster on k")
    fact = "read key chunk  (chunk=3, exact=True, 1 reads, 2.0 KiB)"
    assert str(plan).splitlines() == [
        "lookup  (3 reads, 6.0 KiB)",
        "├─ search index",
        f"│  ├─ {fact}",
        f"│  └─ {fact}",
        f"└─ {fact}",
    ]
    assert leaf["chunk"] == 3
    with pytest.raises(KeyError):
        leaf["nothing"]
    assert len(list(plan.walk())) == 5
    assert json.loads(json.dumps(plan.to_dict()))["children"][1]["details"]["chunk"] == 3


def test_layout_prints_and_converts_to_json() -> None:
    stream = LayoutNode(name="values", kind="stream", size_bytes=10, encoding="bit_packed")
    node = LayoutNode(name="k", kind="column", rows=1000, size_bytes=12, children=(stream,))
    assert str(node) == "k  1,000 rows  12 B\n└─ values  10 B  bit_packed"
    assert json.loads(json.dumps(node.to_dict()))["children"][0]["encoding"] == "bit_packed"
    assert [part.kind for part in node.walk()] == ["column", "stream"]


def test_import_is_light_and_unknown_names_are_plain_attribute_errors() -> None:
    heavy = "{'pandas', 'polars', 'typer', 'rich', 'pyarrow', 'numpy'}"
    code = (
        f"import sys, nimblepy as nb; nb.SortKey; nb.WriteOptions(); nb.NimbleError; dir(nb); "
        f"print(sorted({heavy} & set(sys.modules)), hasattr(nb, 'nope'), len(nb.__all__))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("[] False")


def test_all_lists_every_public_name_once() -> None:
    assert sorted(nb.__all__) == sorted(set(nb.__all__))
    assert set(dir(nb)) == {*nb.__all__, "__version__"}


@pytest.mark.skipif(CORE, reason="the core is here")
def test_missing_core_is_explained() -> None:
    with pytest.raises(ImportError, match=r"needs the compiled core nimblepy\._core"):
        _ = nb.write
