"""The nodes of filter trees, which are immutable and have SQL's three-valued logic.

A node is true, false or unknown (null) for a row. A filter keeps the rows for which it is true.

=============  =============================================================================
Compare        column op value; unknown if the column is null
In             column equals one of the values; unknown if the column is null
StartsWith     string or binary column starts with a prefix; unknown if it is null
IsNull         never unknown
IsValid        never unknown
Const          the same result for every row
And, Or, Not   Kleene logic: ``false AND unknown`` is false, ``true OR unknown`` is true
Opaque         any other boolean expression; it can only be evaluated
=============  =============================================================================

Values are :class:`pyarrow.Scalar` of exactly the column's type (of its value type for dictionary
and run-end encoded columns), so an index can encode them without another conversion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from nimblepy.schema.columns import Column
from nimblepy.schema.names import Path, show_path
from nimblepy.schema.values import show

if TYPE_CHECKING:
    from nimblepy.duck.evaluate import SqlCondition

Op: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]
FLIPPED: dict[Op, Op] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
NEGATED: dict[Op, Op] = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True, slots=True)
class Compare:
    """``column op value``. With ``nan_greatest``, NaN equals itself and is the greatest value."""

    column: Column
    op: Op
    value: pa.Scalar
    nan_greatest: bool = False

    def __str__(self) -> str:
        return f"{self.column} {self.op} {show(self.value)}"


@dataclass(frozen=True, slots=True)
class In:
    """``column IN (values)``. Without values, it is false for every value that is not null.

    A NaN in ``values`` matches NaN.
    """

    column: Column
    values: tuple[pa.Scalar, ...]

    def __str__(self) -> str:
        shown = ", ".join(show(value) for value in self.values[:8])
        more = f", ... {len(self.values)} values" if len(self.values) > 8 else ""
        return f"{self.column} in ({shown}{more})"


@dataclass(frozen=True, slots=True)
class StartsWith:
    column: Column
    prefix: str | bytes

    def __str__(self) -> str:
        return f"{self.column} starts with {self.prefix!r}"


@dataclass(frozen=True, slots=True)
class IsNull:
    column: Column

    def __str__(self) -> str:
        return f"{self.column} is null"


@dataclass(frozen=True, slots=True)
class IsValid:
    column: Column

    def __str__(self) -> str:
        return f"{self.column} is not null"


@dataclass(frozen=True, slots=True)
class Const:
    value: bool | None

    def __str__(self) -> str:
        return "unknown" if self.value is None else str(self.value).lower()


@dataclass(frozen=True, slots=True)
class And:
    args: tuple[Node, ...]

    def __str__(self) -> str:
        return " and ".join(f"({arg})" if isinstance(arg, Or) else str(arg) for arg in self.args)


@dataclass(frozen=True, slots=True)
class Or:
    args: tuple[Node, ...]

    def __str__(self) -> str:
        return " or ".join(f"({arg})" if isinstance(arg, And) else str(arg) for arg in self.args)


@dataclass(frozen=True, slots=True)
class Not:
    arg: Node

    def __str__(self) -> str:
        return f"not ({self.arg})"


@dataclass(frozen=True, slots=True)
class ColumnPair:
    """``left op right`` of two columns. NaN equals itself and is the greatest value."""

    left: Path
    right: Path
    op: Op

    def __str__(self) -> str:
        return f"{show_path(self.left)} {self.op} {show_path(self.right)}"


@dataclass(frozen=True, slots=True)
class Like:
    """A pattern of ``LIKE``: its characters, and whether each is a wildcard."""

    column: Column
    parts: tuple[tuple[str, bool], ...]

    @property
    def substring(self) -> str | None:
        """The text of a pattern such as ``%text%``; ``None`` for other patterns."""
        *front, last = self.parts
        if len(front) < 2 or front[0] != ("%", True) or last != ("%", True):
            return None
        text = "".join(character for character, _ in front[1:])
        return None if any(is_wild for _, is_wild in front[1:]) else text

    def __str__(self) -> str:
        return f"{self.column} like {''.join(c for c, _ in self.parts)!r}"


Term: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Formula:
    """A comparison with 0 that the core computes exactly.

    Attributes:
        terms: in postfix order: ``("column", number)``, ``("constant", value)``, and operators
            ``("+", 0)``, ``("-", 0)`` and ``("*", 0)``, over unscaled integers of decimals.
    """

    columns: tuple[Column, ...]
    terms: tuple[Term, ...]
    op: Op


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """A condition that is not a test of one column with constants.

    Attributes:
        expression: evaluated by pyarrow, or by DuckDB.
        columns: paths of the columns that it reads.
        implies: a node that is true for every row for which the expression is true, so that indexes
            can still help.
        formula: an equivalent comparison that the core can compute, if there is one.
    """

    expression: pc.Expression | ColumnPair | Like | SqlCondition
    columns: tuple[Path, ...]
    implies: Node | None = None
    formula: Formula | None = None

    def __str__(self) -> str:
        return str(self.expression)


Node: TypeAlias = Compare | In | StartsWith | IsNull | IsValid | Const | And | Or | Not | Opaque
TRUE, FALSE, UNKNOWN = Const(True), Const(False), Const(None)


def never(column: Column) -> Node:
    """Returns a node that is false for every value, and unknown for null."""
    return In(column, ())


def always(column: Column) -> Node:
    """Returns a node that is true for every value, and unknown for null."""
    return Not(In(column, ()))


def all_of(*args: Node) -> Node:
    """Returns Kleene AND, flattened, with constants folded."""
    parts: list[Node] = []
    for arg in args:
        parts.extend(arg.args if isinstance(arg, And) else (arg,))
    if FALSE in parts:
        return FALSE
    parts = [part for part in parts if part != TRUE]
    if not parts:
        return TRUE
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def any_of(*args: Node) -> Node:
    """Returns Kleene OR, flattened, with constants folded and equalities of one column merged."""
    parts: list[Node] = []
    for arg in args:
        parts.extend(arg.args if isinstance(arg, Or) else (arg,))
    if TRUE in parts:
        return TRUE
    parts = [part for part in parts if part != FALSE]
    if not parts:
        return FALSE
    gathered = _gather_equalities(parts)
    if gathered is not None:
        return gathered
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def _gather_equalities(parts: list[Node]) -> In | None:
    """Merges ``a = 1 OR a IN (2, 3)`` to one In, which an index answers as one batch of keys."""
    first = parts[0]
    if len(parts) < 2 or not isinstance(first, (Compare, In)):
        return None
    values: list[pa.Scalar] = []
    for part in parts:
        if isinstance(part, Compare) and part.op == "==" and part.column == first.column:
            values.append(part.value)
        elif isinstance(part, In) and part.column == first.column:
            values.extend(part.values)
        else:
            return None
    return In(first.column, tuple(dict.fromkeys(values)))


def negate(node: Node) -> Node:
    """Returns Kleene NOT, pushed to the leaves so that indexes can still use the result.

    Order comparisons of IEEE floats remain inside a Not: for NaN, ``not (x < 3)`` and ``x >= 3``
    differ.
    """
    match node:
        case Const(value):
            return UNKNOWN if value is None else Const(not value)
        case Not(arg):
            return arg
        case And(args):
            return any_of(*(negate(arg) for arg in args))
        case Or(args):
            return all_of(*(negate(arg) for arg in args))
        case IsNull(column):
            return IsValid(column)
        case IsValid(column):
            return IsNull(column)
        case Compare(column, "==", value) if pa.types.is_boolean(column.value_type):
            return Compare(column, "==", pa.scalar(not value.as_py()))
        case Compare(column, op, value, nan_greatest):
            is_float = pa.types.is_floating(column.value_type)
            if nan_greatest or op in ("==", "!=") or not is_float:
                return Compare(column, NEGATED[op], value, nan_greatest)
    return Not(node)


def columns_of(node: Node) -> tuple[Path, ...]:
    """Returns the paths of all columns that ``node`` reads, without repeats, by first use."""
    match node:
        case And(args) | Or(args):
            return tuple(dict.fromkeys(path for arg in args for path in columns_of(arg)))
        case Not(arg):
            return columns_of(arg)
        case Opaque(_, columns):
            return columns
        case Const():
            return ()
    return (node.column.path,)
