"""Binds the syntax tree of a SQL condition to columns, types and kernels.

Quoted text takes the type of the other side, and types are combined as in DuckDB. Errors for
unsupported constructs have the text of the construct and its place.
"""

# mypy cannot check the types of values that are sent to generators.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import partial, reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr import lists, numbers, times
from nimblepy.expr.arrays import Value, full, plain_scalar, plain_type, rows_of, widened
from nimblepy.expr.casts import cast, parse_bytes, parse_uuid, type_name, type_named
from nimblepy.expr.deep import Deep, run
from nimblepy.expr.functions import FUNCTIONS, fits, is_list
from nimblepy.expr.nodes import Op
from nimblepy.expr.strings import concatenated
from nimblepy.expr.syntax import Syntax, place_of
from nimblepy.expr.terms import BOOL, Call, Case, Col, Lit, Term, and_, call, or_
from nimblepy.schema.columns import resolve_sql
from nimblepy.schema.kinds import family, is_bytes, is_text
from nimblepy.schema.many import Many, as_many
from nimblepy.schema.plain import plain_array
from nimblepy.schema.text import is_uuid_size, parse_text, spelled_uuid
from nimblepy.schema.values import as_scalar, show
from nimblepy.schema.zones import localize

Parameters: TypeAlias = Mapping[str, object] | Sequence[object] | None
COMPARISONS: dict[str, Op] = {
    "=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip
UNKNOWN = Lit(pa.scalar(None, BOOL), BOOL)
_NULL = Lit(pa.scalar(None), pa.null())
_DAY_TIME = ("date", "instant")


# Functions of the clock, and what Python has for them.
_CLOCKS = dict.fromkeys(
    ("now", "get_current_timestamp", "current_timestamp", "transaction_timestamp"),
    "datetime.now(UTC)",
) | {"today": "date.today()", "current_date": "date.today()"}


def _clock_hint(name: str) -> str:
    return f"; give the time as a parameter: $now with params={{'now': {_CLOCKS[name]}}}"


class _Row(tuple[Term, ...]):
    """A row ``(a, b)``. It can only be compared with another row."""


def bind(
    tree: Syntax,
    text: str,
    schema: pa.Schema,
    params: Parameters = None,
    sides: Sequence[str] = (),
) -> Term:
    """The typed tree of a condition over the columns of ``schema``.

    Args:
        sides: structs whose fields may be named without them, as :func:`resolve_sql` says.

    Raises:
        InvalidArgumentError: an unknown column, function or parameter, mismatched types, or a
            construct that filters do not support; the message quotes it.
    """
    binder = _Binder(text, schema, params, sides)
    term = run(binder.scalar(tree))
    binder.check_parameters()
    return term


class _Binder:
    def __init__(
        self, text: str, schema: pa.Schema, params: Parameters, sides: Sequence[str]
    ) -> None:
        self._text = text
        self._sides = sides
        self._schema = schema
        self._params = params
        self._used: set[object] = set()

    def check_parameters(self) -> None:
        """Raises an error if the text does not use a parameter."""
        given: set[object] = set()
        if isinstance(self._params, Mapping):
            given = set(self._params)
        elif self._params is not None:
            given = set(range(1, len(self._params) + 1))
        unused = sorted(map(str, given - self._used))
        if unused:
            raise InvalidArgumentError(f"params: {', '.join(unused)} not used by {self._text!r}")

    def _shown(self, tree: Syntax) -> str:
        return self._text[tree.start : tree.end]

    def _refuse(self, tree: Syntax, reason: object) -> InvalidArgumentError:
        shown = self._shown(tree)
        if len(shown) > 100:
            shown = shown[:97] + "..."
        reason = str(reason).removeprefix(f"{self._shown(tree)}: ")
        return InvalidArgumentError(f"{shown}: {reason} (at {place_of(self._text, tree.start)})")

    # ------------------------------------------------------------------ by kind

    def scalar(self, tree: Syntax) -> Deep[Term]:
        """A term of one value."""
        term = yield self._bind(tree)
        if isinstance(term, _Row):
            raise self._refuse(tree, "a row of values can only be compared with another")
        return term

    def _scalars(self, trees: Sequence[Syntax]) -> Deep[list[Term]]:
        bound = []
        for tree in trees:
            bound.append((yield self.scalar(tree)))
        return bound

    def _bind(self, tree: Syntax) -> Deep[Term | _Row]:
        match tree.kind:
            case "name":
                return self._column(tree)
            case "number":
                return self._number(tree)
            case "text":
                return Lit(pa.scalar(tree.value), pa.string(), quoted=True)
            case "bytes":
                return Lit(pa.scalar(tree.value), pa.binary())
            case "constant":
                return _NULL if tree.value is None else Lit(pa.scalar(tree.value), BOOL)
            case "parameter":
                return self._parameter(tree)
            case "row":
                items = []
                for arg in tree.args:
                    items.append((yield self._bind(arg)))
                return _Row(items)
            case "list":
                return (yield self._list(tree))
            case "cast":
                return (yield self._cast(tree))
            case "interval":
                return (yield self._interval(tree))
            case "case":
                return (yield self._case(tree))
        special = _SPECIAL.get(tree.value)
        if special is not None:
            return (yield special(self, tree))
        return (yield self._function(tree))

    def _column(self, tree: Syntax) -> Term:
        parts, quoted = tree.value
        try:
            column = resolve_sql(self._schema, parts, quoted=quoted, sides=self._sides)
        except InvalidArgumentError as error:
            text = "" if not quoted or len(parts) > 1 else parts[0].replace("'", "''")
            hint = f"; text is written in single quotes: '{text}'" if text else ""
            if not quoted and parts[0].lower() in _CLOCKS:
                hint = _clock_hint(parts[0].lower())
            place = place_of(self._text, tree.start)
            raise InvalidArgumentError(f"{error}{hint} (at {place})") from None
        is_uuid = getattr(column.type, "extension_name", "") == "arrow.uuid"
        return Col(column, pa.uuid() if is_uuid else plain_type(column.type))

    def _number(self, tree: Syntax) -> Term:
        text = tree.value
        if "e" in text.lower():
            return Lit(pa.scalar(float(text)), pa.float64())
        fits = text.isdigit() and len(text) < 20  # longer numbers become decimals
        return self._constant(tree, int(text) if fits else Decimal(text))

    def _list(self, tree: Syntax) -> Deep[Term]:
        """Binds ``[a, b]`` of constants to one constant."""
        items = yield self._scalars(tree.args)
        if not all(isinstance(item, Lit) for item in items):
            raise self._refuse(tree, "a list of values that are not constant is only allowed in IN")
        data_type, items = self._common(tree, items)
        return _list_of([item for item in items if isinstance(item, Lit)], data_type)

    def _parameter(self, tree: Syntax) -> Term:
        return self._constant(tree, self._given(tree))

    def _given(self, tree: Syntax) -> object:
        """The given value of a parameter."""
        name = tree.value
        self._used.add(name)
        params = self._params
        if isinstance(params, Mapping):
            if name not in params:
                names = ", ".join(map(str, params)) or "none"
                raise self._refuse(tree, f"params has no {name!r}; it has {names}")
            return params[name]
        if params is None:
            raise self._refuse(tree, "a parameter without a value; give params=")
        if isinstance(name, str):
            raise self._refuse(tree, "a named parameter; params is a list, not a dict")
        if not 0 < name <= len(params):
            raise self._refuse(tree, f"params has {len(params)} values")
        return params[name - 1]

    def _constant(self, tree: Syntax, value: object) -> Term:
        """Converts a Python or Arrow value to a constant."""
        try:
            if isinstance(value, str):
                return Lit(pa.scalar(value), pa.string(), quoted=True)
            many = None if isinstance(value, pa.Scalar) else as_many(value)
            if many is not None:
                value = _as_list(plain_array(_one_column(many)))
            if (
                isinstance(value, int)
                and not isinstance(value, bool)
                and not -(2**63) <= value < 2**63
            ):
                value = Decimal(value)
            scalar = _decimal(value) if isinstance(value, Decimal) else as_scalar(value)
        except (
            InvalidArgumentError, pa.ArrowException, ValueError, TypeError, OverflowError
        ) as error:  # fmt: skip
            raise self._refuse(tree, error) from None
        is_uuid = getattr(scalar.type, "extension_name", "") == "arrow.uuid"
        data_type = pa.uuid() if is_uuid else scalar.type
        if is_text(scalar.type):
            return Lit(scalar, scalar.type, quoted=True)
        return Lit(plain_scalar(scalar), data_type if is_uuid else plain_type(scalar.type))

    # ------------------------------------------------------------------ conditions

    def condition(self, tree: Syntax) -> Deep[Term]:
        """A term that is true, false or null."""
        term = yield self.scalar(tree)
        if pt.is_null(term.type):
            return UNKNOWN
        if not pt.is_boolean(term.type):
            raise self._refuse(tree, f"is not a condition but {_noun(term)}; compare it")
        return term

    def _connective(self, tree: Syntax) -> Deep[Term]:
        args = []
        for arg in tree.args:
            args.append((yield self.condition(arg)))
        return self._logic(tree, tree.value, *args)

    def _logic(self, tree: Syntax, name: str, *args: Term) -> Term:
        """AND, OR or NOT of conditions; constant conditions are folded."""
        text = self._shown(tree)
        if name == "not":
            return call("not", pc.invert, args, text)
        decides = name == "or"
        constants = [arg.value.as_py() for arg in args if isinstance(arg, Lit)]
        if decides in constants:
            return Lit(pa.scalar(decides), BOOL)
        rest = [arg for arg in args if not isinstance(arg, Lit) or not arg.value.is_valid]
        if not rest:
            return Lit(pa.scalar(not decides), BOOL)
        if len(rest) == 1:
            return rest[0]
        return Call(name, or_ if decides else and_, tuple(rest), BOOL, text)

    def _comparison(self, tree: Syntax) -> Deep[Term]:
        left = yield self._bind(tree.args[0])
        right = yield self._bind(tree.args[1])
        return self._compare(tree, COMPARISONS[tree.value], left, right)

    def _compare(self, tree: Syntax, op: Op, left: Term | _Row, right: Term | _Row) -> Term:
        if isinstance(left, _Row) or isinstance(right, _Row):
            return self._compare_rows(tree, op, *self._rows(tree, left, right))
        left, right = self._meet(tree, left, right)
        if pt.is_null(left.type) or pt.is_null(right.type):
            return UNKNOWN
        return call(op, _comparing(op, left.type), (left, right), self._shown(tree))

    def _rows(self, tree: Syntax, left: Any, right: Any) -> tuple[_Row, _Row]:
        for one, other, at in ((left, right, 1), (right, left, 0)):
            if isinstance(one, _Row) and not (isinstance(other, _Row) and len(one) == len(other)):
                shown = self._shown(tree.args[at]) if at < len(tree.args) else "it"
                raise self._refuse(tree, f"{shown} has not as many values as the other side")
        return left, right

    def _compare_rows(self, tree: Syntax, op: Op, left: _Row, right: _Row) -> Term:
        """Compares rows value by value. Nulls are equal and greatest; the result is never null."""
        if op in ("==", "!="):
            pairs = zip(left, right, strict=True)
            same = self._logic(tree, "and", *(self._same(tree, a, b) for a, b in pairs))
            return same if op == "==" else self._logic(tree, "not", same)
        strictly: Op = "<" if op in ("<", "<=") else ">"
        last: Term | None = None
        for a, b in zip(reversed(left), reversed(right), strict=True):
            before = self._before(tree, strictly, a, b)
            if last is None and strictly == op:
                last = before
            else:
                same = self._same(tree, a, b)
                further = same if last is None else self._logic(tree, "and", same, last)
                last = self._logic(tree, "or", before, further)
        assert last is not None
        return last

    def _before(self, tree: Syntax, op: Op, left: Any, right: Any) -> Term:
        """``left op right``, with nulls greatest; the result is never null."""
        if isinstance(left, _Row) or isinstance(right, _Row):
            return self._compare_rows(tree, op, *self._rows(tree, left, right))
        if op == ">":
            return self._before(tree, "<", right, left)
        left_valid = self._valid(tree, left)
        if isinstance(right, Lit) and not right.value.is_valid:
            return left_valid
        less = self._compare(tree, "<", left, right)
        above = self._null(tree, right)
        both = self._logic(tree, "and", left_valid, self._valid(tree, right), less)
        return self._logic(tree, "or", both, self._logic(tree, "and", left_valid, above))

    def _null(self, tree: Syntax, term: Term) -> Term:
        if isinstance(term, Col) and not self._schema.field(term.column.path[0]).nullable and len(
            term.column.path
        ) == 1:  # fmt: skip
            return Lit(pa.scalar(False), BOOL)
        return call("is null", _is_null, (term,), self._shown(tree), strict=False)

    def _valid(self, tree: Syntax, term: Term) -> Term:
        return self._logic(tree, "not", self._null(tree, term))

    def _distinct(self, tree: Syntax) -> Deep[Term]:
        left = yield self._bind(tree.args[0])
        right = yield self._bind(tree.args[1])
        if isinstance(left, _Row) or isinstance(right, _Row):
            return self._compare_rows(tree, "==", *self._rows(tree, left, right))
        return self._same(tree, left, right)

    def _same(self, tree: Syntax, left: Any, right: Any) -> Term:
        """Equality in which nulls are equal."""
        if isinstance(left, _Row) or isinstance(right, _Row):
            return self._compare_rows(tree, "==", *self._rows(tree, left, right))
        if isinstance(left, Lit):
            left, right = right, left
        if isinstance(right, Lit):
            if not right.value.is_valid:
                return self._null(tree, left)
            return self._logic(
                tree, "and", self._valid(tree, left), self._compare(tree, "==", left, right)
            )
        left, right = self._meet(tree, left, right)
        kernel = _of_intervals(numbers.same) if _is_interval(left.type) else numbers.same
        if is_list(left.type):
            kernel = lists.same
        return call("same", kernel, (left, right), self._shown(tree), strict=False)

    def _is(self, tree: Syntax) -> Deep[Term]:
        if tree.value == "is null":
            term = yield self._bind(tree.args[0])
            if isinstance(term, _Row):
                raise self._refuse(tree, "IS NULL of a row of values is not supported")
            return call("is null", _is_null, (term,), self._shown(tree), strict=False)
        term = yield self.condition(tree.args[0])
        wanted = tree.value == "is true"
        kernel = partial(_is_known, wanted)
        return call(tree.value, kernel, (term,), self._shown(tree), strict=False)

    def _between(self, tree: Syntax) -> Deep[Term]:
        value = yield self._bind(tree.args[0])
        low = yield self._bind(tree.args[1])
        high = yield self._bind(tree.args[2])
        above = self._compare(tree, ">=", value, low)
        return self._logic(tree, "and", above, self._compare(tree, "<=", value, high))

    def _in(self, tree: Syntax) -> Deep[Term]:
        value = yield self._bind(tree.args[0])
        return (yield self._one_of(tree, value, tree.args[1:]))

    def _one_of(self, tree: Syntax, value: Any, trees: Sequence[Syntax]) -> Deep[Term]:
        members = []
        for member in trees:
            if member.kind == "number":  # fast path: long lists usually consist of numbers
                members.append(self._number(member))
            else:
                members.append((yield self._bind(member)))
        return self._any_of(tree, value, members)

    def _any_of(self, tree: Syntax, value: Any, members: Sequence[Any]) -> Term:
        if not members:
            return Lit(pa.scalar(False), BOOL)
        all_constant = all(isinstance(member, Lit) for member in members)
        if not isinstance(value, _Row) and _kind(value) == "number":
            floats = [m.type for m in (value, *members) if pt.is_floating(m.type)]
            if floats and not (all_constant and len(floats) > len(members)):
                # A single float makes all comparisons float comparisons.
                value = self._converted(tree, value, numbers.number_type(floats))
        if isinstance(value, _Row) or not all_constant or is_list(value.type):
            comparisons = [self._compare(tree, "==", value, member) for member in members]
            return self._logic(tree, "or", *comparisons)
        members = [self._meet(tree, value, member)[1] for member in members]
        if isinstance(value, Lit):
            comparisons = [self._compare(tree, "==", value, member) for member in members]
            return self._logic(tree, "or", *comparisons)
        if any(self._meet(tree, value, member)[0] is not value for member in members):
            comparisons = [self._compare(tree, "==", value, member) for member in members]
            return self._logic(tree, "or", *comparisons)
        return Call("in", _is_one_of, (value, *members), BOOL, self._shown(tree))

    def _contains(self, tree: Syntax) -> Deep[Term]:
        """``contains(list, x)``, ``x IN list``, ``x = ANY(list)``, or ``contains(text, x)``."""
        is_in = len(tree.args) == 2 and tree.args[1].start < tree.args[0].start
        shown = replace(tree, start=tree.args[1].start) if is_in else tree
        if is_in and tree.args[0].kind == "parameter":
            given = self._given(tree.args[0])
            many = as_many(given)
            if many is None and not (given is None or isinstance(given, pa.Scalar)):
                raise self._refuse(
                    shown, f"IN takes a list of values, not {show(given)}; of one value write ="
                )
            if many is not None:
                value = yield self._bind(tree.args[1])
                return self._any_of(tree, value, self._members(tree.args[0], many))
        if len(tree.args) == 2 and tree.args[0].kind == "list":
            value = yield self._bind(tree.args[1])
            return (yield self._one_of(tree, value, tree.args[0].args))
        if len(tree.args) == 2:
            container = yield self._bind(tree.args[0])
            if isinstance(container, Lit) and is_list(container.type):
                value = yield self._bind(tree.args[1])
                items = [self._constant(tree, item) for item in container.value.values or ()]
                return self._any_of(tree, value, items)
            if isinstance(container, _Row):
                raise self._refuse(shown, "a row of values is not a list")
            if is_in and not (
                is_list(container.type) or is_text(container.type) or pt.is_null(container.type)
            ):
                raise self._refuse(
                    shown, f"IN takes values in parentheses or a list, not {_noun(container)}"
                )
            value = yield self.scalar(tree.args[1])
            if is_text(container.type) and not (is_text(value.type) or pt.is_null(value.type)):
                raise self._refuse(
                    shown, f"type mismatch: cannot search {_noun(container)} for {_noun(value)}"
                )
        return (yield self._function(tree))

    def _members(self, tree: Syntax, many: Many) -> list[Term]:
        """Converts the values of a parameter of IN to constants."""
        items: Any = many
        try:
            if not isinstance(many, list):
                items = _one_column(many)
            elif (column := _one_column(many)) is not None and not pt.is_temporal(column.type):
                items = column  # one type, as in a SQL list; times could lose digits
        except (InvalidArgumentError, pa.ArrowException, ValueError, TypeError, OverflowError) as e:
            if not isinstance(many, list):
                raise self._refuse(tree, e) from None
        if isinstance(items, pa.Array) and not isinstance(items.type, pa.UuidType):
            items = plain_array(items)
        return [self._constant(tree, item) for item in items]

    # ------------------------------------------------------------------ common types

    def _meet(self, tree: Syntax, left: Term, right: Term) -> tuple[Term, Term]:
        """Converts two terms to comparable types."""
        if isinstance(right, Lit):
            right = self._as_met(tree, right, left)
        if isinstance(left, Lit):
            left = self._as_met(tree, left, right)
        kinds = [family(plain_type(term.type)) for term in (left, right)]
        a, b = left.type, right.type
        if pt.is_null(a) or pt.is_null(b) or set(kinds) <= {"number", "bool"}:
            return left, right
        if _is_interval(a) and _is_interval(b):
            return left, right
        if is_list(a) and is_list(b):
            self._meet(tree, *(self._item(tree, term) for term in (left, right)))
            return left, right
        if set(kinds) <= set(_DAY_TIME):
            zones = {t.tz is not None for t in (a, b) if pt.is_timestamp(t)}
            if len(zones) < 2 and not (True in zones and "date" in kinds):
                return left, right
            if "date" in kinds:
                zone = a.tz if pt.is_timestamp(a) else b.tz
                target = pa.timestamp("us", zone)
                return (self._converted(tree, left, target), self._converted(tree, right, target))
            raise self._refuse(
                tree, f"type mismatch: cannot compare {_noun(left)} with {_noun(right)}: "
                "only one of them has a time zone"
            )  # fmt: skip
        uuids = [isinstance(t, pa.UuidType) for t in (a, b)]
        sized = [isinstance(t, Col) and is_uuid_size(t.column.type) for t in (left, right)]
        alike = kinds[0] == kinds[1] != "none" and (
            uuids[0] == uuids[1] or all(u or s for u, s in zip(uuids, sized, strict=True))
        )
        if alike and (kinds[0] != "text" or is_text(a) == is_text(b)):
            return left, right
        shown = [self._shown(arg) for arg in tree.args[:2]]
        hint = " and ".join(shown)
        raise self._refuse(
            tree, f"type mismatch: cannot compare {_noun(left)} with {_noun(right)}"
            f"; cast one of {hint}"
        )  # fmt: skip

    def _as_met(self, tree: Syntax, lit: Lit, other: Term) -> Lit:
        """Converts a constant for a comparison with ``other``, such as text to its type."""
        data_type, value = other.type, lit.value
        if not value.is_valid:
            return Lit(pa.scalar(None, plain_type(data_type)), data_type)
        if is_list(data_type) and is_list(lit.type):
            sample = self._item(tree, other)
            members = (self._constant(tree, member) for member in value.values)
            items = [self._as_met(tree, m, sample) for m in members if isinstance(m, Lit)]
            kind = next((item.value.type for item in items if item.value.is_valid), pa.null())
            return _list_of(items, kind)
        try:
            is_uuid = isinstance(data_type, pa.UuidType) and is_bytes(lit.type)
            if is_uuid and len(value.as_py()) == 16:
                return Lit(value, data_type)
            if lit.quoted and isinstance(other, Col):
                uuid_value = spelled_uuid(other.column.type, value.as_py())
                if uuid_value is not None:
                    return Lit(pa.scalar(uuid_value.bytes), data_type)
            if lit.quoted and not (isinstance(other, Lit) and other.quoted):
                return _read_quoted(value.as_py(), data_type, lit)
            if pt.is_timestamp(data_type) and data_type.tz:
                if pt.is_date(lit.type):
                    value = value.cast(pa.timestamp("us"))
                if pt.is_timestamp(value.type) and value.type.tz is None:
                    value = localize(value, data_type.tz)
                    return Lit(value, value.type)
            if pt.is_duration(data_type) and pt.is_interval(lit.type):
                micros = times.comparable_interval(value).cast(pa.duration("us"))
                return Lit(micros, micros.type)
        except (InvalidArgumentError, ValueError) as error:
            raise self._refuse(tree, str(error) or f"{value} is not a {data_type}") from None
        return lit

    def _item(self, tree: Syntax, values: Term) -> Term:
        """A term that has the type of the list's elements."""
        element = values.type.value_type
        kind = element if isinstance(element, pa.UuidType) else plain_type(element)
        return Call("element", pc.list_flatten, (values,), kind, self._shown(tree))

    def _common(self, tree: Syntax, terms: Sequence[Term]) -> tuple[pa.DataType, list[Term]]:
        """Converts terms, such as the branches of a CASE, to one type."""
        typed = [t for t in terms if not (isinstance(t, Lit) and (t.quoted or pt.is_null(t.type)))]
        if not typed:
            data_type = pa.string() if any(not pt.is_null(t.type) for t in terms) else pa.null()
        else:
            data_type = typed[0].type
            for term in typed[1:]:
                common = _common_type(data_type, term.type)
                if common is None:
                    raise self._refuse(
                        tree,
                        f"no type holds both {type_name(data_type)} and {type_name(term.type)}",
                    )
                data_type = common
        if pt.is_decimal(data_type) and data_type.bit_width == 64:
            data_type = pa.decimal128(data_type.precision, data_type.scale)
        out: list[Term] = []
        for term in terms:
            if isinstance(term, Lit) and term.quoted:
                try:
                    term = _read_quoted(term.value.as_py(), data_type, term)
                except (InvalidArgumentError, ValueError) as error:
                    raise self._refuse(tree, error) from None
            exact = pt.is_decimal(data_type) and _kind(term) == "number"
            # Integers and decimals are converted later, when their values are known.
            out.append(term if exact else self._converted(tree, term, data_type))
        return data_type, out

    def _converted(
        self, tree: Syntax, term: Term, target: pa.DataType, lenient: bool = False
    ) -> Term:
        source = term.type
        if source == target:
            return term
        if isinstance(target, pa.UuidType) or isinstance(source, pa.UuidType):
            kernel = partial(_cast, source, target, lenient)
            converted = call("cast", kernel, (term,), self._shown(tree))
            if isinstance(converted, Lit):
                return Lit(converted.value, target)
            assert isinstance(converted, Call)
            return Call(converted.name, converted.kernel, converted.args, target, converted.text)
        if isinstance(term, Lit) and not term.value.is_valid:
            return Lit(pa.scalar(None, plain_type(target)), plain_type(target))
        kernel = partial(_cast, source, target, lenient)
        return call("cast", kernel, (term,), self._shown(tree))

    # ------------------------------------------------------------------ values

    def _cast(self, tree: Syntax) -> Deep[Term]:
        name, lenient = tree.value
        term = yield self.scalar(tree.args[0])
        if name == "interval" and isinstance(term, Lit) and term.quoted:
            return self._parsed_interval(tree, term.value.as_py(), None)
        target = type_named(name)
        if target is None:
            raise self._refuse(tree, f"cannot cast to {name.upper()} in a filter")
        if isinstance(term, Lit) and term.quoted and term.value.is_valid and not lenient:
            text = term.value.as_py()
            if family(target) in ("date", "instant"):
                # Keep all digits of the text, even beyond microseconds.
                try:
                    value = as_scalar(parse_text(target, text))
                    if pt.is_date(target):
                        value = value.cast(target, safe=False)
                    return Lit(value, value.type)
                except InvalidArgumentError as error:
                    raise self._refuse(tree, error) from None
        if pt.is_timestamp(target) and target.tz and pt.is_timestamp(term.type) and term.type.tz:
            target = pa.timestamp("us", term.type.tz)
        try:
            return self._converted(tree, term, target, lenient)
        except InvalidArgumentError as error:
            raise self._refuse(tree, error) from None

    def _interval(self, tree: Syntax) -> Deep[Term]:
        amount = yield self.scalar(tree.args[0])
        if not isinstance(amount, Lit):
            raise self._refuse(tree, "INTERVAL takes a constant")
        value = amount.value.as_py()
        if value is None:
            return Lit(pa.scalar(None, times.INTERVAL), times.INTERVAL)
        if not isinstance(value, (str, int, Decimal)):
            raise self._refuse(tree, "INTERVAL takes text or a whole number")
        return self._parsed_interval(tree, str(value), tree.value)

    def _parsed_interval(self, tree: Syntax, text: str, unit: str | None) -> Term:
        try:
            return Lit(times.parse_interval(text, unit), times.INTERVAL)
        except (ValueError, OverflowError, pa.ArrowException):
            raise self._refuse(tree, "is not an interval such as '1 day 2 hours'") from None

    def _case(self, tree: Syntax) -> Deep[Term]:
        whens, values = [], []
        pairs = len(tree.args) // 2
        for i in range(pairs):
            whens.append((yield self.condition(tree.args[2 * i])))
            values.append((yield self.scalar(tree.args[2 * i + 1])))
        values.append((yield self.scalar(tree.args[-1])) if len(tree.args) % 2 else _NULL)
        return self._choice(tree, whens, values)

    def _choice(self, tree: Syntax, whens: Sequence[Term], values: Sequence[Term]) -> Term:
        data_type, values = self._common(tree, values)
        args: list[Term] = []
        otherwise = values[-1]
        for when, value in zip(whens, values, strict=False):
            if isinstance(when, Lit):
                if when.value.as_py() is True:
                    otherwise = value
                    break
                continue
            args += [when, value]
        if not args:
            return otherwise
        return Case((*args, otherwise), data_type, self._shown(tree))

    def _coalesce(self, tree: Syntax) -> Deep[Term]:
        values = yield self._scalars(tree.args)
        if not values:
            raise self._refuse(tree, "takes at least one value")
        whens = [self._valid(tree, value) for value in values[:-1]]
        return self._choice(tree, whens, values)

    def _nullif(self, tree: Syntax) -> Deep[Term]:
        left, right = yield self._args(tree, 2)
        return self._choice(tree, [self._compare(tree, "==", left, right)], [_NULL, left])

    def _if(self, tree: Syntax) -> Deep[Term]:
        if len(tree.args) != 3:
            raise self._refuse(tree, "takes a condition and two values")
        when = yield self.condition(tree.args[0])
        values = yield self._scalars(tree.args[1:])
        return self._choice(tree, [when], values)

    def _extreme(self, tree: Syntax) -> Deep[Term]:
        """GREATEST and LEAST; nulls are ignored."""
        args = yield self._scalars(tree.args)
        if not args:
            raise self._refuse(tree, "takes at least one value")
        _, (best, *rest) = self._common(tree, args)
        op: Op = ">=" if tree.value == "greatest" else "<="
        for other in rest:
            better = self._logic(
                tree, "or", self._null(tree, other), self._compare(tree, op, best, other)
            )
            keep = self._logic(tree, "and", self._valid(tree, best), better)
            best = self._choice(tree, [keep], [best, other])
        return best

    def _args(self, tree: Syntax, count: int) -> Deep[list[Term]]:
        if len(tree.args) != count:
            raise self._refuse(tree, f"takes {count} arguments, got {len(tree.args)}")
        args = yield self._scalars(tree.args)
        return args

    def _sum(self, tree: Syntax) -> Deep[Term]:
        """``+`` and ``-`` of numbers, of times and intervals, or of dates and days."""
        left, right = yield self._args(tree, 2)
        name = {"add": "+", "subtract": "-", "date_add": "+"}.get(tree.value, tree.value)
        plus = name == "+"
        kinds = [_kind(left), _kind(right)]
        if "null" in kinds:
            return _NULL
        text = self._shown(tree)
        kernel: Callable[..., Value] | None = None
        if kinds == ["number", "number"]:
            kernel = numbers.add if plus else numbers.subtract
        elif kinds[1] == "interval" and kinds[0] in (*_DAY_TIME, "time"):
            kernel = partial(times.add_interval, sign=1 if plus else -1)
        elif plus and kinds[0] == "interval" and kinds[1] in (*_DAY_TIME, "time"):
            left, right, kernel = right, left, times.add_interval
        elif kinds[0] == "date" and kinds[1] == "number" and pt.is_integer(right.type):
            kernel = times.add_days if plus else (lambda a, b: times.add_days(a, numbers.negate(b)))
        elif plus and kinds[1] == "date" and kinds[0] == "number" and pt.is_integer(left.type):
            left, right, kernel = right, left, times.add_days
        elif not plus and set(kinds) <= set(_DAY_TIME):
            left, right = self._meet(tree, left, right)
            kernel = times.subtract_times
        elif kinds == ["interval", "interval"] and isinstance(left, Lit) and isinstance(right, Lit):
            return self._interval_sum(left, right, 1 if plus else -1)
        if kernel is None:
            raise self._refuse(tree, f"no {name} of {_noun(left)} and {_noun(right)}")
        return call(name, kernel, (left, right), text)

    def _interval_sum(self, left: Lit, right: Lit, sign: int) -> Term:
        pairs = zip(left.value.as_py(), right.value.as_py(), strict=True)
        months, days, nanos = (a + sign * b for a, b in pairs)
        return Lit(times.interval(months, days, nanos // 1000), times.INTERVAL)

    def _product(self, tree: Syntax) -> Deep[Term]:
        left, right = yield self._args(tree, 2)
        if _kind(left) == "number" and _kind(right) == "interval":
            left, right = right, left
        if _kind(left) == "interval" and isinstance(left, Lit) and isinstance(right, Lit):
            by = right.value.as_py()
            if isinstance(by, int):
                months, days, nanos = (part * by for part in left.value.as_py())
                return Lit(times.interval(months, days, nanos // 1000), times.INTERVAL)
        return self._applied(tree, tree.value, [left, right])

    def _divided(self, tree: Syntax) -> Deep[Term]:
        """``//``: integer division; the same as ``/`` if an argument is not an integer."""
        args = yield self._args(tree, 2)
        whole = all(map(_is_whole, args))
        return self._applied(tree, "//" if whole else "/", args)

    def _negate(self, tree: Syntax) -> Deep[Term]:
        (term,) = yield self._args(tree, 1)
        if _kind(term) == "interval" and isinstance(term, Lit):
            return self._interval_sum(Lit(times.interval(0, 0, 0), times.INTERVAL), term, -1)
        return self._applied(tree, "negate", [term])

    def _joined(self, tree: Syntax) -> Deep[Term]:
        """``||`` of text and values that are converted to text, or of bytes."""
        args = yield self._args(tree, 2)
        if any(pt.is_null(arg.type) for arg in args):
            return _NULL
        if all(is_bytes(plain_type(arg.type)) for arg in args):
            return call("||", concatenated, tuple(args), self._shown(tree))
        texts = [self._as_text(tree, arg) for arg in args]
        return call("||", concatenated, tuple(texts), self._shown(tree))

    def _as_text(self, tree: Syntax, term: Term) -> Term:
        if is_text(term.type):
            return term
        try:
            return self._converted(tree, term, pa.string())
        except InvalidArgumentError as error:
            raise self._refuse(tree, error) from None

    def _unmatched(self, tree: Syntax) -> Deep[Term]:
        found = yield self._args(tree, 2)
        return self._logic(tree, "not", self._applied(tree, "~", found))

    def _concat(self, tree: Syntax) -> Deep[Term]:
        texts: list[Term] = []
        for arg in tree.args:
            term = yield self.scalar(arg)
            if pt.is_null(term.type):
                continue
            texts.append(self._as_text(tree, term))
        return self._applied(tree, "concat", texts) if texts else Lit(pa.scalar(""), pa.string())

    def _field(self, tree: Syntax) -> Deep[Term]:
        """Accesses a field of a struct column by name."""
        inner, name = yield self._args(tree, 2)
        if not (isinstance(inner, Col) and isinstance(name, Lit) and name.quoted):
            raise self._refuse(tree, "only a field of a struct column can be named")
        try:
            path = (*inner.column.path, name.value.as_py())
            column = resolve_sql(self._schema, path, quoted=True)
        except InvalidArgumentError as error:
            raise self._refuse(tree, error) from None
        return Col(column, plain_type(column.type))

    def _zoned(self, tree: Syntax) -> Deep[Term]:
        """``AT TIME ZONE``: converts an instant to local time, or local time to an instant."""
        zone, term = yield self._args(tree, 2)
        if not (isinstance(zone, Lit) and zone.quoted) or _kind(term) != "instant":
            raise self._refuse(tree, "AT TIME ZONE takes a timestamp and the name of a zone")
        name = zone.value.as_py()
        if term.type.tz is None:
            kernel: Callable[..., Value] = partial(_localized, name)
        else:
            kernel = partial(_wall_clock, name)
        return call("timezone", kernel, (term,), self._shown(tree))

    # ------------------------------------------------------------------ functions

    def _function(self, tree: Syntax) -> Deep[Term]:
        if tree.value not in FUNCTIONS:
            hint = ""
            if tree.value in _CLOCKS:
                hint = _clock_hint(tree.value)
            raise self._refuse(tree, f"{tree.value}() is not supported in a filter{hint}")
        args = yield self._scalars(tree.args)
        return self._applied(tree, tree.value, args)

    def _applied(self, tree: Syntax, name: str, args: Sequence[Term]) -> Term:
        """Calls a function of the table in ``functions.py``."""
        function = FUNCTIONS[name]
        words = function.signature.split()
        least = sum(not word.endswith("?") for word in words)
        most = len(args) if words[-1].endswith("+") else len(words)
        if not least <= len(args) <= most:
            raise self._refuse(tree, f"takes {function.signature}, got {len(args)} arguments")
        if function.strict and any(pt.is_null(arg.type) for arg in args):
            return _NULL
        given: list[Term] = []
        constants: list[str] = []
        for i, arg in enumerate(args):
            word = words[min(i, len(words) - 1)]
            if "list" in word and is_list(arg.type):
                pass
            elif not fits(word, plain_type(arg.type)):
                arg = self._coerced(tree, name, word, arg)
            if word == "const":
                if not isinstance(arg, Lit):
                    raise self._refuse(tree, f"argument {i + 1} of {name} is quoted text")
                constants.append(str(arg.value.as_py()))
            else:
                given.append(arg)
        if len(given) == 2 and words[0] in ("list", "text|list") and is_list(given[0].type):
            given[1] = self._element(tree, given[0], given[1])
        kernel = partial(function.kernel, *constants) if constants else function.kernel
        try:
            return call(name, kernel, tuple(given), self._shown(tree), strict=function.strict)
        except InvalidArgumentError as error:
            raise self._refuse(tree, error) from None

    def _coerced(self, tree: Syntax, name: str, word: str, arg: Term) -> Term:
        if isinstance(arg, Lit) and arg.quoted and word.startswith("bytes"):
            return self._as_met(tree, arg, Lit(pa.scalar(b""), pa.binary()))
        expected = " or ".join(_NOUNS[part] for part in word.rstrip("?+").split("|"))
        raise self._refuse(
            tree, f"type mismatch: {name.upper()} needs {expected}, not {_noun(arg)}"
        )

    def _element(self, tree: Syntax, values: Term, wanted: Term) -> Term:
        if tree.value.endswith(("extract", "element")):
            return wanted
        return self._meet(tree, self._item(tree, values), wanted)[1]


_SPECIAL: dict[str, Callable[[_Binder, Syntax], Deep[Any]]] = {
    **dict.fromkeys(("and", "or", "not"), _Binder._connective),
    **dict.fromkeys(COMPARISONS, _Binder._comparison),
    **dict.fromkeys(("is null", "is true", "is false"), _Binder._is),
    **dict.fromkeys(("+", "-", "add", "subtract", "date_add"), _Binder._sum),
    **dict.fromkeys(("*", "multiply"), _Binder._product),
    **dict.fromkeys(("coalesce", "ifnull"), _Binder._coalesce),
    **dict.fromkeys(("greatest", "least"), _Binder._extreme),
    "//": _Binder._divided,
    "negate": _Binder._negate,
    "is not distinct from": _Binder._distinct,
    "between": _Binder._between,
    "in": _Binder._in,
    "contains": _Binder._contains,
    "nullif": _Binder._nullif,
    "if": _Binder._if,
    "||": _Binder._joined,
    "!~": _Binder._unmatched,
    "concat": _Binder._concat,
    "struct_extract": _Binder._field,
    "timezone": _Binder._zoned,
}


# ------------------------------------------------------------------ helpers


def _one_column(many: Many) -> pa.Array:
    """Converts many values to one array."""
    if isinstance(many, pa.Table):
        if many.num_columns != 1:
            raise InvalidArgumentError(f"expected values of one column, got {many.num_columns}")
        many = many.column(0)
    if isinstance(many, pa.ChunkedArray):
        return many.combine_chunks()
    return many if isinstance(many, pa.Array) else pa.array(many)


def _list_of(items: Sequence[Lit], data_type: pa.DataType) -> Lit:
    """A constant list; decimals in it are converted to one type."""
    same = all(item.value.type == data_type for item in items)
    # pyarrow cannot make an array from null list scalars
    same = same and all(item.value.is_valid for item in items)
    values = [item.value if same else item.value.as_py() for item in items]
    return Lit(_as_list(pa.array(values, data_type)), pa.list_(data_type))


def _as_list(values: pa.Array) -> pa.Scalar:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)[0]


def _decimal(value: Decimal) -> pa.Scalar:
    """A decimal with minimal precision; a float if it has more than 76 digits."""
    if not value.is_finite():
        return pa.scalar(float(value))
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > 76:
        return pa.scalar(float(value))
    try:
        return pa.scalar(value, numbers.decimal_type(precision, scale))
    except (pa.ArrowException, InvalidOperation) as error:
        raise ValueError(f"{show(value)}: {error}") from error


def _read_quoted(text: str, data_type: pa.DataType, lit: Lit) -> Lit:
    """Converts quoted text to the type that it is compared with."""
    if isinstance(data_type, pa.UuidType):
        try:
            return Lit(pa.scalar(parse_uuid(text)), data_type)
        except ValueError:
            raise InvalidArgumentError(f"type mismatch: {text!r} is not a UUID") from None
    if is_text(data_type) or pt.is_null(data_type):
        return lit
    if is_bytes(data_type):
        try:
            return Lit(pa.scalar(parse_bytes(text)), pa.binary())
        except (ValueError, UnicodeError):
            raise InvalidArgumentError(
                f"type mismatch: {text!r} is not bytes, such as '\\x01\\xff'"
            ) from None
    if _is_interval(data_type):
        try:
            parsed = times.parse_interval(text)
        except ValueError:
            raise InvalidArgumentError(f"{text!r} is not an interval") from None
        if pt.is_duration(data_type):
            parsed = times.comparable_interval(parsed).cast(pa.duration("us"))
        return Lit(parsed, parsed.type)
    value = parse_text(data_type, text)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        value = Decimal(value)
    scalar = _decimal(value) if isinstance(value, Decimal) else as_scalar(value)
    return Lit(scalar, scalar.type)


def _common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The common type of two types; ``None`` if they do not have one."""
    if a == b:
        return a
    kinds = {family(plain_type(a)), family(plain_type(b))}
    if kinds <= {"number", "bool"}:
        return numbers.number_type([a, b])
    if kinds == {"date", "instant"}:
        return a if pt.is_timestamp(a) else b
    if kinds == {"instant"}:
        if (a.tz is None) != (b.tz is None):
            return None
        return max(a, b, key=lambda t: ("s", "ms", "us", "ns").index(t.unit))
    if kinds == {"text"} and is_text(a) == is_text(b) and not isinstance(a, pa.UuidType):
        return pa.large_string() if is_text(a) else pa.large_binary()
    return None


def _kind(term: Term) -> str:
    if pt.is_null(term.type):
        return "null"
    return "interval" if _is_interval(term.type) else family(plain_type(term.type))


def _is_interval(data_type: pa.DataType) -> bool:
    return bool(pt.is_interval(data_type) or pt.is_duration(data_type))


def _noun(term: Term) -> str:
    """Describes a term by its type, for messages."""
    if isinstance(term, Col):
        return f"a {type_name(term.column.value_type)} column"
    if isinstance(term, Lit):
        if pt.is_null(term.type):
            return "NULL"
        return f"{show(term.value)}, which is {type_name(term.type)}"
    return f"a value of type {type_name(term.type)}"


_NOUNS = {
    "text": "a string",
    "const": "quoted text",
    "bytes": "bytes",
    "integer": "an integer",
    "number": "a number",
    "date": "a date or timestamp",
    "time": "a date or time",
    "list": "a list",
}


def _comparing(op: Op, data_type: pa.DataType) -> Callable[..., Value]:
    kernel = partial(lists.ordered, op) if is_list(data_type) else numbers.compared(op)
    return _of_intervals(kernel) if _is_interval(data_type) else kernel


def _of_intervals(kernel: Callable[..., Value]) -> Callable[..., Value]:
    return lambda *values: kernel(*(times.comparable_interval(value) for value in values))


def _is_null(value: Value) -> Value:
    return pc.is_null(value)


def _is_known(expected: bool, value: Value) -> Value:
    return pc.fill_null(value if expected else pc.invert(value), False)


def _is_whole(term: Term) -> bool:
    """Whether a term is an integer, including integers computed as decimals of over 64 bits."""
    wide = not isinstance(term, Col) and term.type in (pa.decimal128(20, 0), pa.decimal128(38, 0))
    return bool(pt.is_integer(term.type)) or wide


def _is_one_of(value: Value, *members: Value) -> Value:
    """``IN``: if a member is null, values without a match give null."""
    return reduce(pc.or_kleene, (numbers.compare("==", value, m) if m.is_valid
                                 else pa.scalar(None, BOOL) for m in members))  # fmt: skip


def _cast(source: pa.DataType, target: pa.DataType, lenient: bool, value: Value) -> Value:
    result = cast(full(value, rows_of(value)), source, target, lenient)
    if pt.is_decimal(target) and target.bit_width > 64 and pt.is_decimal(result.type):
        return widened(result)
    return result


def _localized(zone: str, value: Value) -> Value:
    return pc.assume_timezone(value, zone, ambiguous="earliest", nonexistent="latest")


def _wall_clock(zone: str, value: Value) -> Value:
    return pc.local_timestamp(value.cast(pa.timestamp(value.type.unit, zone)))
