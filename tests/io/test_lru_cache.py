"""LruCache keeps the values that were used last."""

from __future__ import annotations

from nimblepy.io.lru_cache import LruCache


def test_the_least_recently_used_value_is_evicted() -> None:
    cache: LruCache[int] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]


def test_sizes_are_limited_by_their_sum() -> None:
    cache: LruCache[str] = LruCache(10, len)
    for text in ("aaaa", "bbb", "ccc"):
        cache.put(text[0], text)
    assert [cache.get(key) for key in "abc"] == ["aaaa", "bbb", "ccc"]
    cache.put("a", "a")  # replaces a value, and its size
    cache.put("d", "ddd")
    assert [cache.get(key) for key in "abcd"] == ["a", "bbb", "ccc", "ddd"]
    cache.put("e", "e" * 99)  # larger than all of the cache
    assert [cache.get(key) for key in "abcde"] == [None, None, None, None, "e" * 99]
    cache.put("f", "f")
    assert [cache.get(key) for key in "ef"] == [None, "f"]
    cache.clear()
    cache.put("g", "g" * 10)
    assert cache.get("g") == "g" * 10
