"""Names of columns and kinds of DataFrames."""

from __future__ import annotations


def quoted(*path: str) -> str:
    """A column's name, or the path of a field, as Spark's expressions take it."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)


def is_connect(session_or_frame: object) -> bool:
    """Whether this is a session or a DataFrame of Spark Connect, which has no JVM to reach."""
    return "connect" in type(session_or_frame).__module__
