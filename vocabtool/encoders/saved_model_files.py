"""The files of a SavedModel: where they lie, fetched where a hub handle says so, and a digest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from vocabtool.errors import NotFound, UnsupportedFormat
from vocabtool.formats import hub_cache
from vocabtool.formats.saved_model import graph_files
from vocabtool.system.native_import import imported

CONTENT: Final = ("variables", "assets", "assets.extra")
KERAS: Final = ".keras"


def local(model: str | Path) -> Path:
    """The folder or file of a model; a hub handle that is not in the cache yet is fetched.

    Raises :class:`NotFound` where it is nowhere, and cannot be fetched.
    """
    if isinstance(model, str) and hub_cache.is_handle(model):
        try:
            return hub_cache.find(model)
        except NotFound as missing:
            return _fetched(model, missing)
    path = graph_files.path_of(model)
    if path.suffix == KERAS and path.is_file():
        raise UnsupportedFormat(
            f"{path}: a Keras archive; export it as a SavedModel with `model.export(FOLDER)`"
        )
    return path.absolute()


def _fetched(handle: str, missing: NotFound) -> Path:
    """Let TensorFlow Hub fetch a module, as it does it itself."""
    try:
        hub = imported("tensorflow_hub")
    except ImportError as error:
        what = f"{missing}\ntensorflow_hub, which fetches it, cannot be imported ({error})"
        raise NotFound(f"{what}: pip install '.[tensorflow]'") from error
    try:
        return Path(hub.resolve(handle))
    except Exception as error:  # of the network, of archives, of TensorFlow's own files: any kind
        raise NotFound(f"{missing}\nIt could not be fetched now: {error}") from error


def digest(graph: Path, told: Sequence[str]) -> str:
    """Hexadecimal sha256 of a SavedModel's graph, variables and assets, and of what else is told.

    Each file goes in with its name and its size, so that no two models have one digest.
    """
    found = hashlib.sha256(b"vocabtool tensorflow encoder 1\n")
    found.update(repr(tuple(told)).encode())
    for name, file in [(graph.name, graph), *_content(graph.parent)]:
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            found.update(f"\n{len(os.fsencode(name))} {size}\n".encode() + os.fsencode(name))
            found.update(hashlib.file_digest(opened, "sha256").digest())
    return found.hexdigest()


def _content(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files beside a graph that decide what it does, in order, named from the folder on."""
    for name in CONTENT:
        for parent, folders, files in os.walk(folder / name):
            folders.sort()
            for file in sorted(files):
                path = Path(parent, file)
                yield path.relative_to(folder).as_posix(), path
