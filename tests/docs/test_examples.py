"""The example that searches text, with words hashed to vectors in place of a model."""

from __future__ import annotations

import importlib.util
import zlib
from pathlib import Path
from typing import Any

import numpy as np

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "text_search.py"


def _embed(texts: list[str]) -> np.ndarray[Any, Any]:
    out = np.zeros((len(texts), 256), dtype=np.float32)
    for i, text in enumerate(texts):
        for word in text.lower().split():
            out[i, zlib.crc32(word.encode()) % 256] += 1
    return out


def test_text_search_finds_the_sentence_asked_for(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("example_text_search", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    said = example.sentences(4500)
    module, question = said[1234]
    hits = example.main(str(tmp_path), question, _embed, most=4500)
    assert (hits[0]["module"], hits[0]["text"]) == (module, question)
    assert hits[0]["_distance"] < 1e-6
    assert len(hits) == 5
