"""Parts decoded beside each other: in order, few ahead, and none left running for nothing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from functools import partial

import pytest

from nimblepy.errors import InvalidArgumentError
from nimblepy.files import ahead
from nimblepy.files.ahead import in_turn

pytestmark = pytest.mark.sanitizer


def decode(number: int, seen: list[tuple[int, int]], threads: int) -> Iterable[tuple[int, int]]:
    seen.append((number, threads))
    time.sleep(0.001 * (number % 3))
    return [(number, 0), (number, 1)]


@pytest.mark.parametrize("threads", [0, 2, 5])
def test_in_order(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setattr(ahead, "_TASK_VALUES", 10)
    seen: list[tuple[int, int]] = []
    # Every seventh is large; of the others up to three are decoded together.
    parts = [(None if i % 7 == 3 else 4, partial(decode, i, seen)) for i in range(50)]
    found = list(in_turn(parts, threads))
    assert found == [(i, j) for i in range(50) for j in range(2)]
    assert sorted(seen) == [(i, threads if i % 7 == 3 else 1) for i in range(50)]
    assert list(in_turn([], threads)) == []


def test_few_are_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_TASK_VALUES", 1)
    seen: list[tuple[int, int]] = []
    results = in_turn(((1, partial(decode, i, seen)) for i in range(1000)), 2)
    assert next(results) == (0, 0)
    time.sleep(0.1)
    assert len(seen) <= 3
    results.close()  # type: ignore[attr-defined]
    time.sleep(0.1)
    assert len(seen) <= 3


def test_two_are_decoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_TASK_VALUES", 1)
    both = threading.Barrier(2, timeout=60)

    def meet(number: int, threads: int) -> list[int]:
        both.wait()
        return [number]

    assert list(in_turn([(1, partial(meet, i)) for i in range(4)], 2)) == [0, 1, 2, 3]


@pytest.mark.parametrize("together", [1, 100])
def test_an_error_comes_in_its_turn(monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    monkeypatch.setattr(ahead, "_TASK_VALUES", together)

    def fail(number: int, threads: int) -> Iterable[tuple[int, int]]:
        yield number, 0
        if number == 2:
            raise OSError("two")
        yield number, 1

    results = in_turn([(1, partial(fail, i)) for i in range(9)], 3)
    assert [next(results) for _ in range(5)] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    with pytest.raises(OSError, match="two"):
        next(results)


def test_a_child_of_fork_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads that decode are not in it, so it used to wait for ever."""
    monkeypatch.setattr(ahead, "_TASK_VALUES", 1)
    results = in_turn([(1, partial(decode, i, [])) for i in range(9)], 2)
    assert next(results) == (0, 0)
    child = os.fork()
    if child == 0:
        try:
            list(results)
        except InvalidArgumentError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert len(list(results)) == 17


@pytest.mark.parametrize("together", [1, 100])
def test_a_part_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    """Those before it are given first, so that who stops early never hears of it."""
    monkeypatch.setattr(ahead, "_TASK_VALUES", together)
    seen: list[tuple[int, int]] = []

    def parts() -> Iterable[tuple[int | None, ahead.Decode[tuple[int, int]]]]:
        for i in range(3):
            yield 1, partial(decode, i, seen)
        raise OSError("gone")

    results = in_turn(parts(), 2)
    assert [next(results) for _ in range(6)] == [(i, j) for i in range(3) for j in range(2)]
    with pytest.raises(OSError, match="gone"):
        next(results)
