"""Results of checks: one per claim, with a status and what was observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias

from nimblepy.table.claims.kinds import Claim

Status: TypeAlias = Literal[
    "verified", "contradicted", "overdue", "suspect", "unchecked", "unverifiable"
]
# An observation, as text and as plain values.
Observed: TypeAlias = tuple[str | None, Any]


class Check:
    """The result of checking a claim against a snapshot.

    Attributes:
        claim: the claim.
        status: ``"verified"``: the claim holds. ``"contradicted"``: it provably does not hold.
            ``"overdue"``: rows are older than promised. ``"suspect"``: the data has changed, so a
            person should look. ``"unchecked"``: the available metadata is not enough to check it.
            ``"unverifiable"``: only people can check it.
        snapshot: id of the snapshot.
        reason: why the claim has this status.
    """

    __slots__ = ("_observe", "claim", "reason", "snapshot", "status")

    def __init__(
        self,
        claim: Claim,
        status: Status,
        snapshot: int | None,
        observed: Observed | Callable[[], Observed] = (None, None),
        reason: str | None = None,
    ) -> None:
        self.claim = claim
        self.status = status
        self.snapshot = snapshot
        self.reason = reason
        self._observe = observed

    @property
    def observed(self) -> str | None:
        """The observation, in words. Cost: may read a column to find values."""
        return self._observed()[0]

    @property
    def value(self) -> Any:
        """The observation, for programs: a number, a list or a dict."""
        return self._observed()[1]

    def _observed(self) -> Observed:
        if callable(self._observe):
            self._observe = self._observe()
        return self._observe

    def to_dict(self) -> dict[str, Any]:
        """Returns the check as plain values, for JSON."""
        claim = self.claim
        return {
            "kind": claim.kind,
            "column": claim.column,
            "claimed": claim.value,
            "status": self.status,
            "observed": self.observed,
            "value": self.value,
            "reason": self.reason,
            "snapshot": None if self.snapshot is None else str(self.snapshot),
        }

    def __repr__(self) -> str:
        text = f"{self.status}: {self.claim}"
        if self.observed is not None:
            text += f"; observed: {self.observed}"
        return text if self.reason is None else f"{text} ({self.reason})"


class Checks:
    """The checks of a table's claims. True if no claim is contradicted.

    Attributes:
        name: of the table.
        snapshot: id of the snapshot that was checked.
    """

    def __init__(self, name: str, snapshot: int | None, checks: Iterable[Check]) -> None:
        self.name = name
        self.snapshot = snapshot
        self._checks = tuple(checks)

    def __iter__(self) -> Iterator[Check]:
        return iter(self._checks)

    def __len__(self) -> int:
        return len(self._checks)

    def __getitem__(self, at: int) -> Check:
        return self._checks[at]

    def __bool__(self) -> bool:
        return not self.contradicted

    def of(self, status: Status) -> tuple[Check, ...]:
        """Returns the checks that have a status."""
        return tuple(check for check in self._checks if check.status == status)

    @property
    def contradicted(self) -> tuple[Check, ...]:
        """The claims that do not hold."""
        return self.of("contradicted")

    @property
    def suspect(self) -> tuple[Check, ...]:
        """The claims that a person should review."""
        return self.of("suspect")

    @property
    def overdue(self) -> tuple[Check, ...]:
        """The promises of fresh rows that are broken."""
        return self.of("overdue")

    @property
    def unchecked(self) -> tuple[Check, ...]:
        """The claims that could not be checked from metadata."""
        return self.of("unchecked")

    def __repr__(self) -> str:
        counts = Counter(check.status for check in self._checks)
        head = ", ".join(f"{count} {status}" for status, count in counts.items()) or "no claims"
        lines = [
            check for check in self._checks if check.status not in ("verified", "unverifiable")
        ]
        return "\n".join([f"{self.name}: {head}", *(f"  {check!r}" for check in lines)])
