"""Translates paths in moved lakes: a path below an old root is read below the new root.

Iceberg's metadata has absolute paths. nimblepy's catalogs store the roots at which their lake was
written. If the lake was moved, :func:`register` records that for this process. Code that reads a
file below the new root translates its paths with :func:`translation_of`.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

# Schemes that name the same objects.
_ALIASES = (("s3", "s3a", "s3n"), ("gs", "gcs"), ("az", "abfs", "abfss"))


def as_root(location: str) -> str:
    """Returns a root in the form that is stored: a URI without a slash at the end."""
    text = location.rstrip("/")
    if text.startswith("file:"):
        return f"file:///{text.removeprefix('file:').lstrip('/')}"
    return text if "://" in text else f"file://{text}"


def _spellings(root: str) -> list[str]:
    """Returns the ways in which metadata may begin the path of a file below a root."""
    scheme, _, rest = root.partition("://")
    if scheme == "file":
        return [root, f"file:{rest}", rest]
    schemes = next((group for group in _ALIASES if scheme in group), (scheme,))
    return [f"{name}://{rest}" for name in dict.fromkeys((scheme, *schemes))]


def _has(prefix: str, location: str) -> bool:
    return location.startswith(prefix) and location[len(prefix) : len(prefix) + 1] in ("", "/")


def is_below(location: str, root: str) -> bool:
    """Returns whether a location is the root or is below it."""
    return any(_has(prefix, location) for prefix in _spellings(root))


def below(location: str, root: str) -> str | None:
    """Returns the part of a location after a root and a slash; ``None`` if it is not below the
    root.
    """
    prefix = next((item for item in _spellings(root) if _has(item, location)), None)
    return None if prefix is None else location[len(prefix) + 1 :]


class Translation:
    """Translates paths below old roots of a lake. Immutable.

    Attributes:
        root: the current location of the lake.
        old: the other roots at which it was written.
    """

    def __init__(self, root: str, old: Iterable[str]) -> None:
        self.root = root
        self.old = tuple(sorted(set(old) - {root}))
        here = _spellings(root)
        prefixes: dict[str, str | None] = {}
        for place in self.old:
            spellings = _spellings(place)
            # A path keeps its form if both roots have the same schemes.
            same = [text.partition(":")[0] for text in spellings[:2]] == [
                text.partition(":")[0] for text in here[:2]
            ]
            for i, text in enumerate(spellings):
                prefixes[text] = here[i] if same else root
        prefixes |= dict.fromkeys(here)
        # The longest prefix decides: a lake may have moved into a directory of its old root.
        self._prefixes = sorted(prefixes.items(), key=lambda item: -len(item[0]))

    def path(self, location: str) -> str:
        """Returns the current location of a file that was at ``location``."""
        for prefix, there in self._prefixes:
            if _has(prefix, location):
                return location if there is None else there + location[len(prefix) :]
        return location

    def paths(self, locations: pa.Array) -> pa.Array:
        """Translates each path of a string array, as :meth:`path` does."""
        return pa.array(map(self.path, locations.to_pylist()), pa.string())

    def former(self, location: str) -> list[str]:
        """Returns a current location, and the older paths under which it may be stored."""
        rest = below(location, self.root)
        if rest is None:
            return [location]
        return [location, *(f"{text}/{rest}" for root in self.old for text in _spellings(root))]


# Moved lakes that this process knows, by root.
_translations: dict[str, Translation] = {}


def register(root: str, roots: Iterable[str]) -> Translation | None:
    """Records that a lake at ``root`` was written at ``roots``; returns ``None`` if it was not
    moved.
    """
    translation = _translations.get(root)
    old = set(roots) - {root}
    if translation is None and not old:
        return None
    if translation is None or not old <= set(translation.old):
        old.update(translation.old if translation else ())
        translation = _translations[root] = Translation(root, old)
    return translation


def translation_of(location: str) -> Translation | None:
    """Returns the translation of the paths in a file; ``None`` if the paths are current."""
    if not _translations:
        return None
    around = [t for t in list(_translations.values()) if is_below(location, t.root)]
    # A moved lake may be inside another one.
    return max(around, key=lambda translation: len(translation.root), default=None)


def moves_of(locations: Iterable[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Returns (root, old roots) of each moved lake that has some of these files."""
    if not _translations:
        return []
    found = {id(t): t for location in locations if (t := translation_of(location)) is not None}
    return [(translation.root, translation.old) for translation in found.values()]


def forget() -> None:
    """Removes all records of moved lakes."""
    _translations.clear()
