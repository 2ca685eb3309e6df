"""An index built beside another one, and put in its place by one rename.

    DIR/.new-0123456789abcdef/    a whole index on its way, until then

Until the manifest is renamed DIR is the old index, and writers may change it; from then on it is
the new one. Readers that have the old one open go on. Killed between the first and the last step,
DIR is the old index, and what was moved is removed by its next writer.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from vocabtool.errors import InvalidFile, NotFound
from vocabtool.index import folder
from vocabtool.system.checksums import compare
from vocabtool.system.folder_lock import locked


def build_folder(path: Path, told: str) -> Path:
    """Where an index is built that takes the place of the one in ``path``.

    ``told``: what tells this build from others; what others left is removed. Raises
    :class:`FolderInUse` where one is at work.
    """
    own = path / f".new-{sha256(told.encode()).hexdigest()[:16]}"
    for each in path.iterdir():
        if folder.BUILD.fullmatch(each.name) and each != own:
            remove(each)
    return own


def remove(build: Path) -> None:
    """Remove what was built, wholly or not. Raises :class:`FolderInUse`."""
    if build.is_dir():
        with locked(build):
            shutil.rmtree(build)


def put_in_place(build: Path) -> Path:
    """Let an index that was built beside another one take its place, which is returned.

    Raises :class:`FolderInUse` where either is written to.
    """
    path = folder.home(build)
    with locked(path), locked(build):
        manifest = folder.read_manifest(build)
        number = 1 + max((int(found[1]) for found in _generations(path)), default=-1)
        crcs = {name: _moved(build, path, name, crc) for name, crc in manifest.model_files.items()}
        moved = replace(manifest, generation=number, model_files=crcs)
        folder.generation(build, manifest.generation).rename(folder.generation(path, number))
        folder.commit(path, moved)
        folder.remove_generations(path, but=number)
        shutil.rmtree(build)
    return path


def _moved(build: Path, path: Path, name: str, crc32c: int) -> int:
    """Move a file of the model; the CRC-32C of the one that is in ``path`` now.

    The old index needs its own until the commit. One of the same name has the same content, perhaps
    in other bytes, and stays unless it is damaged.
    """
    try:
        held = folder.read_manifest(path).model_files.get(name)
        if held is not None:
            compare(path / name, held)
            return held
    except (InvalidFile, NotFound):
        pass  # to be replaced
    (build / name).replace(path / name)
    return crc32c


def _generations(path: Path) -> list[re.Match[str]]:
    found = (folder.GENERATIONS.fullmatch(each.name) for each in path.iterdir())
    return [each for each in found if each is not None]
