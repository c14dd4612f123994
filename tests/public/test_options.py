"""Options refuse bad values where they are written, naming found and expected."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import nimblepy as nb

pytestmark = pytest.mark.sanitizer


def test_defaults_are_those_documented() -> None:
    assert dataclasses.asdict(nb.WriteOptions()) == {
        "compression": "balanced",
        "stripe_rows": 131_072,
        "stripe_bytes": 64 << 20,
        "group_rows": 1 << 20,
        "group_bytes": 64 << 20,
        "key_chunk_rows": 2048,
        "restart_interval": 16,
        "cluster_bloom_bits_per_key": None,
        "bloom_columns": (),
        "bloom_bits_per_key": 10.0,
        "statistics": True,
        "zone_rows": 8192,
        "sort_memory_bytes": 512 << 20,
        "index_memory_bytes": 256 << 20,
        "threads": None,
    }


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"compression": "zip"}, "'balanced', 'fast', 'compact', got 'zip'"),
        ({"stripe_rows": 0}, "stripe_rows must be an int >= 1, got 0"),
        ({"stripe_rows": 1.5}, "stripe_rows must be an int >= 1, got 1.5"),
        ({"group_rows": True}, "group_rows must be an int >= 1, got True"),
        ({"key_chunk_rows": -1}, "key_chunk_rows"),
        ({"restart_interval": 0}, "restart_interval"),
        ({"zone_rows": "8"}, "zone_rows must be an int >= 1, got '8'"),
        ({"stripe_bytes": 10}, "stripe_bytes must be an int >= 1024, got 10"),
        ({"sort_memory_bytes": 10}, "sort_memory_bytes must be an int >= 1048576, got 10"),
        ({"threads": 0}, "threads must be an int >= 1, got 0"),
        ({"cluster_bloom_bits_per_key": 0.5}, "from 1 to 64, got 0.5"),
        ({"statistics": "k"}, "True, False or a list of column names, got 'k'"),
        ({"statistics": [1]}, "list of column names"),
    ],
)
def test_bad_write_option_is_refused(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=message):
        nb.WriteOptions(**keywords)


def test_write_options_are_frozen_hashable_and_keyword_only() -> None:
    options = nb.WriteOptions(statistics=["a", "b"])
    assert options.statistics == ("a", "b")
    assert hash(options) == hash(nb.WriteOptions(statistics=("a", "b")))
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.stripe_rows = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        nb.WriteOptions("fast")  # type: ignore[misc]


def test_hash_index_takes_names_only() -> None:
    assert nb.HashIndex("email") == nb.HashIndex(["email"])
    assert nb.HashIndex(["a", "b"]).columns == ("a", "b")
    assert nb.HashIndex("a", bloom_bits_per_key=None).bloom_bits_per_key is None
    with pytest.raises(nb.InvalidArgumentError, match="a hash has no order; pass the name 'a'"):
        nb.HashIndex([nb.SortKey("a")])  # type: ignore[list-item]
    with pytest.raises(nb.InvalidArgumentError, match="at least one column"):
        nb.HashIndex([])
    with pytest.raises(nb.InvalidArgumentError, match="'a' is given more than once"):
        nb.HashIndex(["a", "a"])


@pytest.mark.parametrize("load_factor", [0, 1.0, float("nan"), "x", True])
def test_hash_index_load_factor_is_bounded(load_factor: Any) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=r"load_factor must be a number from 0\.1 to"):
        nb.HashIndex("a", load_factor=load_factor)


def test_sorted_index_takes_names_and_sort_keys() -> None:
    index = nb.SortedIndex(["a", nb.SortKey("b", descending=True)])
    assert index.columns == (nb.SortKey("a"), nb.SortKey("b", descending=True))
    with pytest.raises(nb.InvalidArgumentError, match="at least one column"):
        nb.SortedIndex([])


def test_other_options_are_refused(tmp_path: Any) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=r"expected nb.WriteOptions.*got \{'compre"):
        nb.write({"a": [1]}, tmp_path / "a.nimble", options={"compression": "fast"})  # type: ignore[arg-type]
