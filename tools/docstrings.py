"""Docstrings as the pages of the reference take them: roles as code, one example as examples.

mkdocs.yml names this file; griffe loads it.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|meth|func|attr|data|exc):`~?([\w.]+)`")
_EXAMPLE = re.compile(r"^( *)Example:$", re.MULTILINE)
_SKIP = re.compile(r" *# doctest: \+SKIP")
# A line under "Raises:" that names no error is a sentence.
_SENTENCE = re.compile(r"^Raises:\n +(As |The errors of )", re.MULTILINE)


class Plain(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is None:
            return
        text = _ROLE.sub(r"`\1`", obj.docstring.value)
        text = _EXAMPLE.sub(r"\1Examples:", text)
        obj.docstring.value = _SENTENCE.sub(r"**Raises:** \1", _SKIP.sub("", text))
