"""Parses the text of a SQL condition, in DuckDB's grammar of expressions.

The tree contains only syntax; ``bind.py`` resolves its meaning. Operators, predicates and functions
are all calls by name, so one table can list them.
"""

# mypy cannot check the types of values that are sent to generators.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.deep import Deep, run
from nimblepy.expr.times import UNITS, unit_named

Kind: TypeAlias = Literal[
    "name", "number", "text", "bytes", "constant", "parameter", "call", "cast", "case", "row",
    "list", "interval",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Syntax:
    """A node of the syntax tree.

    Attributes:
        value: depends on ``kind``:

            * a name: its parts, and whether one was quoted;
            * a literal: its text;
            * a constant: True, False or None;
            * a parameter: its name or number;
            * a call: the name of the function or operator;
            * a cast: the type, and whether it is TRY_CAST;
            * an interval: the unit.
        start, end: the range of characters in the text.
    """

    kind: Kind
    value: Any
    args: tuple[Syntax, ...]
    start: int
    end: int


class SyntaxFault(Exception):
    """A syntax error in the characters from ``start`` to ``end``."""

    def __init__(self, start: int, end: int, reason: str = "") -> None:
        super().__init__(reason)
        self.start = start
        self.end = end


class Token(NamedTuple):
    """A word, sign, number or quoted text. ``kind`` is the name of a group in the pattern."""

    kind: str
    text: str
    start: int
    end: int


_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<bytes>[xX]'[^']*')
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<number>(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?)
    |(?P<parameter>\$\w+|\?)
    |(?P<word>[^\W\d][\w$]*)
    |(?P<sign>::|\|\||//|\*\*|==|<>|!=|<=|>=|\^@|!~|[-+*/%^<>=~@()\[\],.:])
    """,
    re.VERBOSE | re.DOTALL,
)
# Reserved words: they are names only if quoted.
_RESERVED = frozenset(
    {
        *("all", "and", "any", "as", "between", "case", "cast", "collate", "distinct", "else"),
        *("end", "escape", "except", "false", "for", "from", "glob", "group", "having", "ilike"),
        *("in", "intersect", "is", "isnull", "like", "limit", "not", "notnull", "null", "offset"),
        *("on", "or", "order", "select", "similar", "some", "then", "true", "try_cast", "union"),
        *("unknown", "using", "when", "where"),
    }
)
_OR, _AND, _NOT, _IS, _COMPARE, _RANGE, _OTHER, _SUM, _PRODUCT, _POWER, _ZONE, _SIGN, _INDEX = (
    range(1, 14)
)
_BINARY = {
    "=": _COMPARE, "==": _COMPARE, "<>": _COMPARE, "!=": _COMPARE,
    "<": _COMPARE, "<=": _COMPARE, ">": _COMPARE, ">=": _COMPARE,
    "||": _OTHER, "^@": _OTHER, "~": _OTHER, "!~": _OTHER,
    "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT,
    "^": _POWER, "**": _POWER,
}  # fmt: skip
_SAME = {"==": "=", "!=": "<>", "**": "^", "^@": "starts_with"}


def parse(text: str) -> Syntax:
    """Parses a condition, nested to any depth.

    Raises:
        InvalidArgumentError: the text is empty or has a syntax error; the message shows where.
    """
    if not text.strip():
        raise InvalidArgumentError("filter: the SQL text is empty; write a condition such as x > 3")
    try:
        return _Parser(text).parse()
    except SyntaxFault as fault:
        raise InvalidArgumentError(_message(text, fault)) from None


def place_of(text: str, at: int) -> str:
    """Line and column of a character, counted from 1."""
    line = text.count("\n", 0, at) + 1
    return f"line {line}, column {at - (text.rfind(chr(10), 0, at) + 1) + 1}"


def _message(text: str, fault: SyntaxFault) -> str:
    reason = f": {fault}" if str(fault) else ""
    shown = text[fault.start : fault.end]
    near = f"near {shown!r} " if shown else "at the end "
    pointer = ""
    if "\n" not in text and len(text) < 200:
        pointer = f"\n  {text}\n  {' ' * fault.start}{'^' * max(1, len(shown))}"
    return f"filter: SQL syntax error {near}at {place_of(text, fault.start)}{reason}{pointer}"


def tokens(text: str) -> Iterator[Token]:
    """Splits SQL text into tokens, without white space and comments.

    Raises:
        SyntaxFault: an unknown sign, or a quote that is not closed.
    """
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise SyntaxFault(at, at + 1, "a quote that is not closed" if text[at] in "'\"" else "")
        kind = match.lastgroup or ""
        if kind == "number" and text[match.end() : match.end() + 1].isalpha():
            raise SyntaxFault(at, match.end() + 1, "a number runs into a name")
        if kind != "space":
            yield Token(kind, match[0], at, match.end())
        at = match.end()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [*tokens(text), Token("end", "", len(text), len(text))]
        self._at = 0
        self._questions = 0

    def parse(self) -> Syntax:
        tree = run(self._expression(0))
        if self._next.kind != "end":
            raise self._fault()
        return tree

    # ------------------------------------------------------------------ tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _word(self, ahead: int = 0) -> str:
        """The next word or sign, in lower case."""
        if self._at + ahead >= len(self._tokens):
            return ""
        token = self._tokens[self._at + ahead]
        return token.text.lower() if token.kind in ("word", "sign") else ""

    def _take(self, *words: str) -> bool:
        """Consumes these words if they are next; returns whether they were."""
        if any(self._word(i) != word for i, word in enumerate(words)):
            return False
        self._at += len(words)
        return True

    def _expect(self, *words: str) -> None:
        if not self._take(*words):
            raise self._fault(f"expected {' '.join(words).upper()}")

    def _fault(self, reason: str = "") -> SyntaxFault:
        token = self._next
        if token.kind == "end":
            token = self._tokens[max(self._at - 1, 0)]
            reason = f"the text ends there{', ' if reason else ''}{reason}"
        elif not reason and token.kind == "word" and token.text.lower() in _RESERVED:
            word = token.text
            reason = f'{word} is a word of SQL; a column of this name is written "{word}"'
        return SyntaxFault(token.start, token.end, reason)

    def _made(self, kind: Kind, value: Any, args: tuple[Syntax, ...], start: int) -> Syntax:
        return Syntax(kind, value, args, start, self._tokens[self._at - 1].end)

    def _call(self, name: str, *args: Syntax) -> Syntax:
        return Syntax("call", name, args, args[0].start, self._tokens[self._at - 1].end)

    # ------------------------------------------------------------------ operators

    def _expression(self, least: int) -> Deep[Syntax]:
        """Parses an expression of operators with a precedence of at least ``least``."""
        left = yield self._operand()
        while True:
            following = yield self._continued(left, least)
            if following is None:
                return left
            left = following

    def _continued(self, left: Syntax, least: int) -> Deep[Syntax | None]:
        """Parses an operator after ``left``; ``None`` if its precedence is below ``least``."""
        word = self._word()
        if word in ("and", "or"):
            level = _AND if word == "and" else _OR
            if level < least:
                return None
            args = [left]
            while self._take(word):
                args.append((yield self._expression(level + 1)))
            return self._call(word, *args)
        if word in ("is", "isnull", "notnull"):
            return None if least > _IS else (yield self._is(left))
        if word == "::":
            self._at += 1
            return self._made("cast", (self._type(), False), (left,), left.start)
        if word == "[":
            return None if least > _INDEX else (yield self._subscript(left))
        if word == ".":
            self._at += 1
            name = self._name()
            text = Syntax("text", name.value[0][0], (), name.start, name.end)
            return self._call("struct_extract", left, text)
        if word == "collate":
            raise self._fault("COLLATE is not supported in a filter")
        if word == "at":
            if least > _ZONE or not self._take("at", "time", "zone"):
                return None
            return self._call("timezone", (yield self._expression(_ZONE + 1)), left)
        if word in ("in", "like", "ilike", "similar", "between", "glob", "not"):
            return None if least > _RANGE else (yield self._predicate(left))
        level = _BINARY.get(word, 0)
        if level < max(least, 1):
            return None
        self._at += 1
        if level == _COMPARE and self._word() in ("any", "some", "all"):
            return (yield self._quantified(left, word))
        right = yield self._expression(level + 1)
        if level == _COMPARE and _BINARY.get(self._word()) == _COMPARE:
            raise self._fault("comparisons do not chain; join two with AND")
        return self._call(_SAME.get(word, word), left, right)

    def _is(self, left: Syntax) -> Deep[Syntax]:
        if self._take("isnull"):
            return self._call("is null", left)
        if self._take("notnull"):
            return self._call("not", self._call("is null", left))
        self._expect("is")
        negated = self._take("not")
        if self._take("distinct", "from"):
            right = yield self._expression(_COMPARE)
            test = self._call("is not distinct from", left, right)
            return test if negated else self._call("not", test)
        word = self._word()
        if word not in ("null", "unknown", "true", "false"):
            raise self._fault("IS takes NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")
        self._at += 1
        test = self._call(f"is {'null' if word == 'unknown' else word}", left)
        return self._call("not", test) if negated else test

    def _predicate(self, left: Syntax) -> Deep[Syntax | None]:
        began = self._at
        negated = self._take("not")
        if self._take("in"):
            predicate = yield self._in(left)
        elif self._take("between"):
            if self._take("symmetric"):
                raise self._fault("BETWEEN SYMMETRIC is not supported")
            low = yield self._expression(_OTHER)
            self._expect("and")
            predicate = self._call("between", left, low, (yield self._expression(_OTHER)))
        elif self._word() in ("like", "ilike"):
            name = self._word()
            self._at += 1
            args = [left, (yield self._expression(_OTHER))]
            if self._take("escape"):
                args.append((yield self._expression(_OTHER)))
            predicate = self._call(name, *args)
        elif self._take("similar", "to"):
            predicate = self._call("~", left, (yield self._expression(_OTHER)))
        elif self._word() == "glob":
            raise self._fault("GLOB is not supported in a filter; use LIKE or regexp_matches")
        else:
            self._at = began
            if negated:
                raise self._fault()
            return None
        return self._call("not", predicate) if negated else predicate

    def _in(self, left: Syntax) -> Deep[Syntax]:
        if not self._take("("):  # a list
            return self._call("contains", (yield self._expression(_OTHER)), left)
        self._refuse_query()
        args = [] if self._word() == ")" else (yield self._items())
        self._expect(")")
        return self._call("in", left, *args)

    def _quantified(self, left: Syntax, op: str) -> Deep[Syntax]:
        if op != "=" or self._word() == "all":
            raise self._fault("only = ANY(list) is supported")
        self._at += 1
        self._expect("(")
        self._refuse_query()
        (items,) = yield self._items()
        self._expect(")")
        return self._call("contains", items, left)

    def _subscript(self, left: Syntax) -> Deep[Syntax]:
        self._expect("[")
        at = yield self._expression(0)
        if self._word() == ":":
            raise self._fault("slices are not supported in a filter; use substr")
        self._expect("]")
        return self._call("list_extract", left, at)

    def _items(self) -> Deep[list[Syntax]]:
        items = []
        while True:
            token = self._next
            if token.kind in ("number", "text") and self._word(1) in (",", ")"):
                items.append(self._literal())  # fast path: long lists usually have literals
            else:
                items.append((yield self._expression(0)))
            if not self._take(","):
                return items

    # ------------------------------------------------------------------ operands

    def _operand(self) -> Deep[Syntax]:
        token, word = self._next, self._word()
        start = token.start
        if word in ("-", "+", "~", "@", "not"):
            self._at += 1
            inner = yield self._expression(_NOT if word == "not" else _SIGN)
            if word == "+":
                return inner
            if word == "~":
                raise SyntaxFault(start, token.end, "operators on bits are not supported")
            name = {"-": "negate", "@": "abs", "not": "not"}[word]
            return self._made("call", name, (inner,), start)
        if token.kind in ("number", "text", "bytes", "parameter"):
            return self._literal()
        if self._take("("):
            self._refuse_query()
            items = yield self._items()
            self._expect(")")
            if len(items) > 1:
                return self._made("row", None, tuple(items), start)
            # Include the parentheses, so that messages show them.
            return replace(items[0], start=start, end=self._tokens[self._at - 1].end)
        if self._take("["):
            items = [] if self._word() == "]" else (yield self._items())
            self._expect("]")
            return self._made("list", None, tuple(items), start)
        if word in ("null", "true", "false"):
            self._at += 1
            value = {"null": None, "true": True, "false": False}[word]
            return self._made("constant", value, (), start)
        if word == "case":
            return (yield self._case())
        if word in ("cast", "try_cast"):
            self._at += 1
            self._expect("(")
            inner = yield self._expression(0)
            self._expect("as")
            target = self._type()
            self._expect(")")
            return self._made("cast", (target, word == "try_cast"), (inner,), start)
        if word == "interval" and self._begins_interval():
            return (yield self._interval())
        if token.kind == "quoted" or (token.kind == "word" and word not in _RESERVED):
            if self._word(1) == "(":
                return (yield self._function())
            typed = self._typed_literal()
            return self._name() if typed is None else typed
        raise self._fault()

    def _begins_interval(self) -> bool:
        following = self._tokens[self._at + 1]
        return following.kind in ("text", "number", "parameter") or self._word(1) in ("(", "-")

    def _refuse_query(self) -> None:
        if self._word() in ("select", "with", "values"):
            raise self._fault("a filter takes values here, not a query")

    def _literal(self) -> Syntax:
        token = self._next
        self._at += 1
        value: Any = token.text
        kind: Any = token.kind
        if kind == "text":
            value = value[1:-1].replace("''", "'")
        elif kind == "number":
            value = value.replace("_", "")
        elif kind == "bytes":
            try:
                value = bytes.fromhex(value[2:-1])
            except ValueError:
                raise SyntaxFault(token.start, token.end, "not pairs of hex digits") from None
        elif value == "?":
            self._questions += 1
            value = self._questions
        else:
            value = int(value[1:]) if value[1:].isdigit() else value[1:]
        return self._made(kind, value, (), token.start)

    def _name(self) -> Syntax:
        start = self._next.start
        parts, quoted = [], False
        while True:
            token = self._next
            if token.kind not in ("word", "quoted"):
                raise self._fault("expected a name")
            self._at += 1
            quoted |= token.kind == "quoted"
            is_word = token.kind == "word"
            parts.append(token.text if is_word else token.text[1:-1].replace('""', '"'))
            if not self._take("."):
                return self._made("name", (tuple(parts), quoted), (), start)

    def _typed_literal(self) -> Syntax | None:
        """Parses a typed literal such as ``DATE '2024-01-01'``; ``None`` if it is not one."""
        began, start = self._at, self._next.start
        if self._next.kind != "word":
            return None
        try:
            target = self._type()
        except SyntaxFault:
            self._at = began
            return None
        if self._next.kind != "text":
            self._at = began
            return None
        return self._made("cast", (target, False), (self._literal(),), start)

    def _type(self) -> str:
        """Parses a type; returns its name in lower case, with sizes."""
        if self._next.kind not in ("word", "quoted"):
            raise self._fault("expected a type")
        name = self._next.text.strip('"').lower()
        self._at += 1
        if name == "double":
            self._take("precision")
        if name in ("time", "timestamp") and self._take("with", "time", "zone"):
            name += "tz"
        elif name in ("time", "timestamp"):
            self._take("without", "time", "zone")
        if self._word() == "(":
            self._at += 1
            sizes = []
            while self._next.kind == "number":
                sizes.append(self._literal().value)
                if not self._take(","):
                    break
            self._expect(")")
            name += f"({','.join(sizes)})"
        while self._take("[", "]"):
            name += "[]"
        return name

    def _case(self) -> Deep[Syntax]:
        """Parses CASE. The arguments alternate conditions and values; the last is that of ELSE."""
        start = self._next.start
        self._expect("case")
        subject = None if self._word() == "when" else (yield self._expression(0))
        args: list[Syntax] = []
        while self._take("when"):
            condition = yield self._expression(0)
            args.append(condition if subject is None else self._call("=", subject, condition))
            self._expect("then")
            args.append((yield self._expression(0)))
        if not args:
            raise self._fault("expected WHEN")
        if self._take("else"):
            args.append((yield self._expression(0)))
        self._expect("end")
        return self._made("case", None, tuple(args), start)

    def _interval(self) -> Deep[Syntax]:
        start = self._next.start
        self._expect("interval")
        if self._take("("):
            amount = yield self._expression(0)
            self._expect(")")
        else:
            negative = self._take("-")
            amount = self._literal()
            if negative:
                amount = self._call("negate", amount)
        unit = None
        if self._next.kind == "word" and unit_named(self._word()) in UNITS:
            unit = unit_named(self._word())
            self._at += 1
        return self._made("interval", unit, (amount,), start)

    def _function(self) -> Deep[Syntax]:
        start = self._next.start
        name = self._next.text.strip('"').lower()
        self._at += 2
        if self._word() == "*":
            raise SyntaxFault(start, self._next.end, f"{name}(*) is not supported in a filter")
        if self._take("distinct"):
            raise SyntaxFault(start, self._next.end, f"{name}(DISTINCT) is not supported")
        if name == "extract":
            part = self._next.text.strip("'")
            self._at += 1
            self._expect("from")
            text = Syntax("text", part, (), start, start)
            args = [text, (yield self._expression(0))]
            name = "date_part"
        elif name == "trim":
            name, args = yield self._trim()
        elif name == "position":
            part_syntax = yield self._expression(_OTHER)
            self._expect("in")
            args = [(yield self._expression(0)), part_syntax]
        else:
            args = [] if self._word() == ")" else (yield self._items())
            if name in ("substring", "substr") and self._take("from"):
                args.append((yield self._expression(0)))
                if self._take("for"):
                    args.append((yield self._expression(0)))
        self._expect(")")
        return self._made("row" if name == "row" else "call", name, tuple(args), start)

    def _trim(self) -> Deep[tuple[str, list[Syntax]]]:
        name = {"both": "trim", "leading": "ltrim", "trailing": "rtrim"}.get(self._word(), "")
        if name:
            self._at += 1
        if self._take("from"):
            return name, [(yield self._expression(0))]
        args = yield self._items()
        if self._take("from"):
            args = [(yield self._expression(0)), *args]
        return name or "trim", args
