"""Helpers for column names and kinds of DataFrames."""

from __future__ import annotations


def quoted(*path: str) -> str:
    """Returns a column's name or the path of a field, in the syntax of Spark's expressions."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)


def is_connect(session_or_frame: object) -> bool:
    """Returns whether a session or DataFrame is of Spark Connect, which has no local JVM."""
    return "connect" in type(session_or_frame).__module__
