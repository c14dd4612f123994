"""A catalog for each test of tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

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

        monkeypatch.setattr(ice.commits, "swap", swap)

    return install
