"""Parses the subset of SQL that the core can evaluate.

The subset has comparisons, ``IN``, ``BETWEEN``, ``IS NULL``, ``LIKE``, ``AND``, ``OR``, ``NOT`` and
rows of values, over columns, constants and parameters. The parser keeps any other part as text, and
``extended.py`` parses it with sqlglot. ``bind.py`` resolves the names and types in the tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from nimblepy.errors import InvalidArgumentError

Kind: TypeAlias = Literal[
    "name", "number", "text", "bytes", "constant", "parameter", "typed", "row", "call",
    "other",
]  # fmt: skip

MOST_LEVELS = 100
_MOST_SHOWN = 100


@dataclass(frozen=True, slots=True, eq=False)
class Syntax:
    """A node of the syntax tree.

    Attributes:
        value: depends on ``kind``:

            * a name: its parts, and whether one was quoted;
            * a literal: its text;
            * a constant: True, False or None;
            * a parameter: its name or number;
            * a typed literal: its text and its type, such as ``date``;
            * a call: the name of the operator, predicate or function;
            * other: None; the text is outside of the subset.
        start, end: the range of characters in the text.
        negated: whether the predicate contains NOT, as in ``NOT IN``.
    """

    kind: Kind
    value: Any
    args: tuple[Syntax, ...]
    start: int
    end: int
    negated: bool = False


class Beyond(Exception):
    """Raised inside the parser if the text is outside of the subset."""


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
    |(?P<sign>::|\|\||//|\*\*|->|==|<>|!=|<=|>=|<<|>>|\^@|!~|[-+*/%^<>=~@()\[\]{},.:&|])
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
_COMPARISONS = {"==": "=", "!=": "<>"} | {op: op for op in ("=", "<>", "<", "<=", ">", ">=")}
_TYPES = {"date", "timestamp", "timestamptz", "time", "uuid", "blob", "double"}


def parse(text: str) -> Syntax:
    """Parses a condition.

    Raises:
        InvalidArgumentError: the text is empty or has a syntax error; the message shows where.
    """
    if not text.strip():
        raise InvalidArgumentError("filter: the SQL text is empty; write a condition such as x > 3")
    try:
        return _Parser(text).parse()
    except SyntaxFault as fault:
        raise fault_error(text, fault) from None


def place_of(text: str, at: int) -> str:
    """Returns the line and column of a character, counted from 1."""
    line = text.count("\n", 0, at) + 1
    return f"line {line}, column {at - (text.rfind(chr(10), 0, at) + 1) + 1}"


def fault_error(text: str, fault: SyntaxFault) -> InvalidArgumentError:
    """Returns an error with the place of a fault, the text there, and what was expected."""
    reason = f": {fault}" if str(fault) else ""
    shown = shortened(text[fault.start : fault.end])
    near = f"near {shown!r} " if shown else "at the end "
    pointer = ""
    if "\n" not in text and len(text) < 200:
        pointer = f"\n  {text}\n  {' ' * fault.start}{'^' * max(1, len(shown))}"
    return InvalidArgumentError(
        f"filter: SQL syntax error {near}at {place_of(text, fault.start)}{reason}{pointer}"
    )


def shortened(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."


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
        self._tokens = [*tokens(text), Token("end", "", len(text), len(text))]
        self._at = 0
        self._level = 0
        self._questions = 0

    def parse(self) -> Syntax:
        tree = self._condition()
        if self._next.kind != "end":  # a closing bracket
            raise SyntaxFault(self._next.start, self._next.end, "no bracket is open")
        return tree

    # ------------------------------------------------------------------ tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _word(self, ahead: int = 0) -> str:
        """Returns the next word or sign, in lower case."""
        token = self._tokens[min(self._at + ahead, len(self._tokens) - 1)]
        return token.text.lower() if token.kind in ("word", "sign") else ""

    def _take(self, *words: str) -> bool:
        """Consumes these words if they are next; returns whether they were."""
        if any(self._word(i) != word for i, word in enumerate(words)):
            return False
        self._at += len(words)
        return True

    def _expect(self, *words: str) -> None:
        if not self._take(*words):
            self._stop(f"expected {' '.join(words).upper()}")

    def _stop(self, reason: str = "") -> None:
        """Raises SyntaxFault at the end of the text; before it, Beyond, for the other parser."""
        token = self._next
        if token.kind == "end":
            last = self._tokens[max(self._at - 1, 0)]
            reason = f"the text ends there{', ' if reason else ''}{reason}"
            raise SyntaxFault(last.start, last.end, reason)
        raise Beyond

    def _made(self, kind: Kind, value: Any, args: tuple[Syntax, ...], start: int) -> Syntax:
        return Syntax(kind, value, args, start, self._tokens[self._at - 1].end)

    def _call(self, name: str, *args: Syntax) -> Syntax:
        return self._made("call", name, args, args[0].start)

    # ------------------------------------------------------------------ conditions

    def _condition(self) -> Syntax:
        self._level += 1
        if self._level > MOST_LEVELS:
            token = self._next
            raise SyntaxFault(token.start, token.end, f"nested more than {MOST_LEVELS} levels deep")
        either: list[Syntax] = []
        while True:
            both = [self._part()]
            while self._take("and"):
                both.append(self._part())
            either.append(both[0] if len(both) == 1 else self._call("and", *both))
            if not self._take("or"):
                break
        self._level -= 1
        return either[0] if len(either) == 1 else self._call("or", *either)

    def _part(self) -> Syntax:
        """Parses an operand of AND. Keeps all of it as text if a part is outside of the subset."""
        begin, level = self._at, self._level
        try:
            test = self._test()
            if self._ends_part():
                return test
        except Beyond:
            pass
        self._at, self._level = begin, level
        start = self._next.start
        nested = between = 0
        while nested or between or not self._ends_part():
            word = self._word()
            if word in ("(", "[", "{", "case"):
                nested += 1
            elif word in (")", "]", "}", "end"):
                nested -= 1
            elif not nested and word in ("between", "and"):
                between += 1 if word == "between" else -1
            if self._next.kind == "end":
                break
            self._at += 1
        if self._at == begin:
            self._stop("expected a condition")
        return self._made("other", None, (), start)

    def _ends_part(self) -> bool:
        return self._next.kind == "end" or self._word() in ("and", "or", ")", ",", "]", "}")

    def _test(self) -> Syntax:
        start, negations = self._next.start, 0
        while self._take("not"):
            negations += 1
        test = self._predicate()
        return self._made("call", "not", (test,), start) if negations % 2 else test

    def _predicate(self) -> Syntax:
        left = self._operand()
        word = self._word()
        if word in _COMPARISONS:
            self._at += 1
            right = self._operand()
            if self._word() in _COMPARISONS:
                token = self._next
                raise SyntaxFault(
                    token.start, token.end, "comparisons do not chain; join two with AND"
                )
            return self._call(_COMPARISONS[word], left, right)
        if word == "^@":
            self._at += 1
            return self._call("starts_with", left, self._operand())
        if word in ("isnull", "notnull"):
            self._at += 1
            return replace(self._call("is null", left), negated=word == "notnull")
        if word == "is":
            return self._is(left)
        negated = self._take("not")
        predicate = self._range(left)
        if predicate is None:
            if negated:
                self._stop("expected IN, BETWEEN or LIKE")
            return left
        return replace(predicate, negated=negated)

    def _is(self, left: Syntax) -> Syntax:
        self._expect("is")
        negated = self._take("not")
        if self._take("distinct", "from"):
            return replace(self._call("same", left, self._operand()), negated=not negated)
        word = self._word()
        if word not in ("null", "unknown", "true", "false"):
            self._stop("expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")
        self._at += 1
        name = f"is {'null' if word == 'unknown' else word}"
        return replace(self._call(name, left), negated=negated)

    def _range(self, left: Syntax) -> Syntax | None:
        if self._take("in"):
            if self._next.kind == "parameter":
                return self._call("in list", left, self._literal())
            self._expect("(")
            members = self._items()
            self._expect(")")
            return self._call("in", left, *members)
        if self._take("between"):
            low = self._operand()
            self._expect("and")
            return self._call("between", left, low, self._operand())
        if self._take("like"):
            args = [left, self._operand()]
            if self._take("escape"):
                args.append(self._operand())
            return self._call("like", *args)
        return None

    # ------------------------------------------------------------------ operands

    def _items(self) -> list[Syntax]:
        items = []
        while True:
            token = self._next
            if token.kind in ("number", "text") and self._word(1) in (",", ")"):
                items.append(self._literal())  # fast path: long lists usually have literals
            else:
                items.append(self._operand())
            if not self._take(","):
                return items

    def _operand(self) -> Syntax:
        token, word = self._next, self._word()
        if token.kind in ("number", "text", "bytes", "parameter"):
            literal = self._literal()
            if self._take("::"):
                return self._typed(literal, self._word(), token.start)
            return literal
        if word in ("-", "+") and self._tokens[self._at + 1].kind == "number":
            self._at += 1
            number = self._literal()
            text = "-" + number.value if word == "-" else number.value
            if self._word() == "::":
                self._stop()
            return self._made("number", text, (), token.start)
        if self._take("("):
            inner = self._condition()
            if self._word() == ",":
                self._at += 1
                items = [inner, *self._items()]
                self._expect(")")
                return self._made("row", None, tuple(items), token.start)
            self._expect(")")
            # Include the parentheses, so that messages show them.
            return replace(inner, start=token.start, end=self._tokens[self._at - 1].end)
        if word in ("null", "true", "false"):
            self._at += 1
            value = {"null": None, "true": True, "false": False}[word]
            return self._made("constant", value, (), token.start)
        if word in _TYPES and self._tokens[self._at + 1].kind == "text":
            self._at += 1
            literal = self._literal()
            self._at -= 1
            return self._typed(literal, word, token.start)
        if word in ("starts_with", "prefix") and self._word(1) == "(":
            self._at += 2
            args = self._items()
            self._expect(")")
            if len(args) != 2:
                raise SyntaxFault(token.start, token.end, "takes two arguments")
            return self._made("call", "starts_with", tuple(args), token.start)
        if token.kind == "quoted" or (token.kind == "word" and word not in _RESERVED):
            return self._name()
        if token.kind == "word" and word not in ("case", "cast", "try_cast", "any", "all", "some"):
            name = token.text
            if word in ("select", "with", "values"):
                raise SyntaxFault(token.start, token.end, "a filter takes values here, not a query")
            reason = f'{name} is a word of SQL; a column of this name is written "{name}"'
            raise SyntaxFault(token.start, token.end, reason)
        if word in (")", "]", "}", ",", ".", ":", *_COMPARISONS):
            raise SyntaxFault(token.start, token.end, "expected a column or a value")
        self._stop("expected a column or a value")
        raise AssertionError("unreachable")

    def _typed(self, literal: Syntax, name: str, start: int) -> Syntax:
        """Consumes the type name after ``::``. The literal before it must be text."""
        if literal.kind != "text" or name not in _TYPES:
            self._stop()
        self._at += 1
        return self._made("typed", (literal.value, name), (), start)

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
                self._stop("expected a name")
            self._at += 1
            is_word = token.kind == "word"
            quoted |= not is_word
            parts.append(token.text if is_word else token.text[1:-1].replace('""', '"'))
            if not self._take("."):
                break
        if self._word() in ("(", "[", "::") or self._next.kind == "text":
            raise Beyond
        return self._made("name", (tuple(parts), quoted), (), start)
