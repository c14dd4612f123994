"""Shows a line of code, runs exactly that line, shows its answer, its time and its reads."""

from __future__ import annotations

import ast
import time
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

MAX_ROWS = 5
MAX_COLUMNS = 9


class Session:
    """A small interpreter: what is printed is what is run, so the two cannot drift apart."""

    def __init__(self, console: Console, names: dict[str, Any]) -> None:
        self.console = console
        self.names = names

    def chapter(self, title: str) -> None:
        self.console.print()
        self.console.rule(f"[bold]{title}")

    def say(self, text: str) -> None:
        self.console.print(text)

    def run(self, why: str, code: str, *, file: str | None = None) -> Any:
        """Runs `code`; its last expression is shown and returned.

        file: name of the open nimblepy file whose reads are counted.
        """
        self.console.print(f"\n{why}")
        self.console.print(Syntax(code, "python", background_color="default", word_wrap=True))
        tree = ast.parse(code)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        body = compile(tree, "<demo>", "exec")
        expression = compile(ast.Expression(last.value), "<demo>", "eval") if last else None
        before = self.names[file].io_stats if file else None
        start = time.perf_counter()
        exec(body, self.names)
        value = eval(expression, self.names) if expression else None
        elapsed = time.perf_counter() - start
        note = duration(elapsed)
        if file and before is not None:
            after = self.names[file].io_stats
            note += f", {after.reads - before.reads} reads"
            note += f" of {after.bytes_read - before.bytes_read:,} bytes in all"
        if value is not None:
            self.show(value)
        self.console.print(f"[dim]{note}[/dim]")
        return value

    def show(self, value: object) -> None:
        if isinstance(value, pa.Table):
            self.console.print(as_rich_table(value))
        elif isinstance(value, dict):
            facts = (f"{k}=[cyan]{escape(str(v))}[/cyan]" for k, v in value.items())
            self.console.print("  " + ", ".join(facts))
        else:
            self.console.print(escape(str(value)), highlight=False)


def as_rich_table(table: pa.Table) -> Table:
    shown = table.column_names[:MAX_COLUMNS]
    out = Table(title=f"{table.num_rows:,} rows", title_justify="left", title_style="")
    for name in shown:
        out.add_column(name, overflow="ellipsis", no_wrap=True)
    if len(shown) < table.num_columns:
        out.add_column(f"+{table.num_columns - len(shown)}")
    for row in table.slice(0, MAX_ROWS).select(shown).to_pylist():
        out.add_row(*(escape("" if v is None else str(v)) for v in row.values()))
    if table.num_rows > MAX_ROWS:
        out.add_row(*("..." for _ in shown))
    return out


def duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:,.1f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:,.2f} ms"
    return f"{seconds:,.2f} s"
