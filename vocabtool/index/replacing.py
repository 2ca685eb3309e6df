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

from vocabtool.folder_lock import locked
from vocabtool.index import folder


def beside(path: Path, told: str) -> Path:
    """Where an index is built that takes the place of the one in ``path``.

    ``told``: what tells this build from others; what others left is removed. Raises
    :class:`FolderInUse` where one is at work.
    """
    own = path / folder.BESIDE.format(sha256(told.encode()).hexdigest()[:16])
    for each in path.glob(folder.BESIDE.format("*")):
        if each != own:
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
        for name in manifest.configuration.model_files:
            (build / name).replace(path / name)
        moved = replace(manifest, generation=number)
        folder.generation(build, manifest.generation).rename(folder.generation(path, number))
        folder.commit(path, moved)
        folder.remove_generations(path, but=number)
        shutil.rmtree(build)
    return path


def _generations(path: Path) -> list[re.Match[str]]:
    found = (folder.GENERATIONS.fullmatch(each.name) for each in path.iterdir())
    return [each for each in found if each is not None]
