"""Translates locations in the metadata of a moved lake from its old roots to the new one."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nimblepy.io.location import is_uri, locate
from nimblepy.table.base.moved import register, translation_of
from nimblepy.table.base.places import readable_path

# The property of a FileIO with the old roots, so that other processes translate in the same way.
MOVED = "nimblepy.moved"
# Table properties that contain locations.
_LOCATION_PROPERTIES = ("write.data.path", "write.metadata.path", "write.object-storage.path")


def with_moved(properties: Mapping[str, str], location: str) -> dict[str, str]:
    """Returns ``properties`` with the old roots of the lake that ``location`` is in."""
    translation = translation_of(location)
    if translation is None:
        return dict(properties)
    content = {"root": translation.root, "old": list(translation.old)}
    return {**properties, MOVED: json.dumps(content)}


def register_moved(properties: Mapping[str, str]) -> None:
    """Registers the old roots that :func:`with_moved` added to ``properties``."""
    text = properties.get(MOVED)
    if text is not None:
        content = json.loads(text)
        register(content["root"], content["old"])


def translated_metadata(data: bytes, location: str) -> bytes:
    """Returns the bytes of the metadata file at ``location``, with current locations."""
    translation = translation_of(location)
    if translation is None:
        return data
    is_gzipped = location.endswith(".gz.metadata.json")
    content = json.loads(gzip.decompress(data) if is_gzipped else data)
    translate_locations(content, translation.path)
    text = json.dumps(content).encode()
    return gzip.compress(text) if is_gzipped else text


def has_old_locations(data: bytes, location: str) -> bool:
    """Returns whether a metadata file has locations below old roots of its lake."""
    if translation_of(location) is None:
        return False
    plain = gzip.decompress(data) if location.endswith(".gz.metadata.json") else data
    return (
        translated_metadata(plain, location.replace(".gz.", "."))
        != json.dumps(json.loads(plain)).encode()
    )


def translate_locations(content: dict[str, Any], path: Callable[[str], str]) -> None:
    """Changes all locations in the JSON of a metadata file."""

    def change(items: Any, *names: str) -> None:
        for item in [items] if isinstance(items, dict) else items or ():
            for name in names:
                if isinstance(item.get(name), str):
                    item[name] = path(item[name])

    change(content, "location")
    change(content.get("snapshots"), "manifest-list")
    for snapshot in content.get("snapshots") or ():
        if isinstance(snapshot.get("manifests"), list):  # of format version 1
            snapshot["manifests"] = [path(item) for item in snapshot["manifests"]]
    change(content.get("metadata-log"), "metadata-file")
    change(content.get("statistics"), "statistics-path")
    change(content.get("partition-statistics"), "statistics-path")
    change(content.get("properties"), *_LOCATION_PROPERTIES)


def place_now(location: str, root: str, roots: Iterable[str]) -> str:
    """Returns the current location of a metadata file of a lake at ``root``, formerly at ``roots``.

    A path below an old root counts only if its file was moved as well, because a database may be
    moved alone. Cost: checks that the file exists, if the lake was moved.
    """
    translation = register(root, roots)
    there = location if translation is None else translation.path(location)
    if there == location or not locate(readable_path(there)).exists():
        return location
    before, now = readable_path(location), readable_path(there)
    is_link = os.path.exists(before) and os.path.samefile(before, now)
    return location if is_link else there


def former_places(location: str, root: str, roots: Iterable[str]) -> list[str]:
    """Returns a current location, and the older paths under which a database may store it."""
    translation = register(root, roots)
    return [location] if translation is None else translation.former(location)


def folder_of(location: str) -> str:
    """Returns the directory of a metadata file, without symbolic links."""
    path = readable_path(location)
    folder = path.rpartition("/")[0]
    return folder if is_uri(path) else os.path.realpath(folder)
