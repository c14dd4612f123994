"""Search text by meaning: sentences of Python's documentation, with filters and updates.

pip install 'nimblepy[table]' wordllama   # the wheel of wordllama contains an embedding model
python examples/text_search.py "read a compressed archive"
"""

from __future__ import annotations

import pkgutil
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import nimblepy as nb

Embed = Callable[[list[str]], Any]  # texts to a matrix, one row per text


def wordllama_model() -> Embed:
    """Returns a model that averages vectors of 256 numbers per token."""
    import wordllama

    # The wheel has the tokenizer in a folder where load() does not look by default.
    folder = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    return lambda texts: model.embed(texts)


def sentences(most: int) -> list[tuple[str, str]]:
    """Returns (module, sentence) of docstrings of the standard library."""
    found: dict[str, str] = {}
    folder = Path(re.__file__).parent.parent
    for module in sorted(pkgutil.iter_modules([str(folder)])):
        path = folder / f"{module.name}.py"
        if module.ispkg:
            path = folder / module.name / "__init__.py"
        if not path.exists():
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        for doc in re.findall(r'"""(.*?)"""', text, re.DOTALL):
            for sentence in re.split(r"(?<=[.!?])\s+|\n\s*\n", doc):
                words = sentence.split()
                if 5 <= len(words) <= 40:
                    found.setdefault(" ".join(words), module.name)
    return [(module, sentence) for sentence, module in found.items()][:most]


def main(folder: str, question: str, embed: Embed, most: int = 20_000) -> list[dict[str, Any]]:
    """Writes a table of sentences and prints those that are nearest to a question."""
    said = sentences(most)
    texts = [sentence for _, sentence in said]
    vectors = np.concatenate([embed(texts[i : i + 1000]) for i in range(0, len(texts), 1000)])
    vectors = vectors.astype(np.float32)
    width = vectors.shape[1]
    rows = pa.table(
        {
            "module": [module for module, _ in said],
            "number": np.arange(len(said)),
            "text": texts,
            "embedding": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), width),
        }
    )
    lake = nb.connect(folder)
    docs = lake.create_table(
        "python.docs",
        rows.schema,
        primary_key=["module", "number"],
        indexes=[nb.VectorIndex("embedding", metric="cosine")],
    )
    docs.append(rows)

    (query,) = embed([question])
    hits = docs.nearest(query, k=5, columns=["module", "text"])
    print(f"{len(said):,} sentences of {width} numbers; {question!r}:")
    for hit in hits.to_pylist():
        print(f"  {hit['_distance']:.3f}  {hit['module']}: {hit['text']}")
    # One module only: its rows are adjacent, so all of them are compared.
    module = hits["module"][0].as_py()
    print(docs.nearest(query, k=1, columns=["text"], prefix=module)["text"].to_pylist())
    print(docs.explain(nearest=query, k=5))
    # A deleted sentence is not found again.
    docs.delete("module = ?", params=[module])
    assert module not in docs.nearest(query, k=5, columns=["module"])["module"].to_pylist()
    return hits.to_pylist()  # type: ignore[no-any-return]


if __name__ == "__main__":
    asked = " ".join(sys.argv[1:]) or "read a compressed archive"
    with tempfile.TemporaryDirectory() as place:
        main(place, asked, wordllama_model())
