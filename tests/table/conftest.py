"""A catalog for each test of tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.manifest import FileFormat

pytest.importorskip("pyiceberg")


Between = Callable[[Callable[[], Any]], None]


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    """Takes a step that is made once, before the next swap."""
    from nimblepy.table import iceberg as ice

    plain = ice.swap

    def install(step: Callable[[], Any]) -> None:
        left = [step]

        def swap(*arguments: Any) -> Any:
            if left:
                left.pop()()
            return plain(*arguments)

        monkeypatch.setattr(ice.snapshot_commit, "swap", swap)

    return install


@pytest.fixture
def library_reads_nimble(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets pyiceberg read manifests that list nimble files: it refuses unknown formats."""

    def missing(cls: Any, value: str) -> Any:
        member = str.__new__(cls, value)
        member._name_ = member._value_ = value
        return member

    monkeypatch.setattr(FileFormat, "_missing_", classmethod(missing))
