"""The folder that one run is written into: begun, gone on with, finished."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Final

from vocabtool.documents.batch import ReadLog
from vocabtool.embedding.plan import Plan
from vocabtool.embedding.shard_files import NAMES, PART, Shard, read_row_groups, read_shard
from vocabtool.embedding.shards import MANIFEST, RUN, WEIGHTS, Manifest, read_manifest, read_plan
from vocabtool.encoders.word_weights import FittedWeights
from vocabtool.errors import InvalidFile, NotFound, reading
from vocabtool.system.checksums import checksum
from vocabtool.system.folder_lock import lock_folder
from vocabtool.system.whole_file import whole_file

# What a run that is killed as it begins leaves behind.
BEGINNING: Final = re.compile(r"\.lock|_weights\.json|\.vocabtool-.*\.tmp")


class Folder:
    """A folder that one run is written into. Made by :func:`open_folder`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def plan(self) -> Plan | None:
        """The run that was begun here; ``None``: none."""
        return read_plan(self.path)

    def manifest(self) -> Manifest | None:
        """What was finished here; ``None``: nothing."""
        return read_manifest(self.path)

    def has_shards(self) -> bool:
        """Whether a run made something here, be it elsewhere now, that would be lost with it."""
        manifest = self.manifest()
        return bool(self._shard_names()) or (manifest is not None and bool(manifest.shards))

    def weights(self) -> FittedWeights | None:
        """The weights that the shards here were made with; ``None``: none are kept."""
        file = self.path / WEIGHTS
        return FittedWeights.read(file) if file.exists() and self.has_shards() else None

    def begin(self, plan: Plan, weights: FittedWeights | None) -> None:
        """Remove what another run made, and keep what this one is.

        The manifest goes first, and the other run's description last, when this one takes its
        place: the folder is a run's all the time. What is not of a run stays.
        """
        for name in (MANIFEST, *self._shard_names()):
            (self.path / name).unlink(missing_ok=True)
        if weights is None:
            (self.path / WEIGHTS).unlink(missing_ok=True)
        else:
            weights.write(self.path / WEIGHTS)
        self._write(RUN, plan.to_json())

    def remove_unfinished(self) -> int:
        """Remove shards that were being written when a run was stopped; how many there were."""
        named = (*self.path.glob(f".shard-*{PART}"), *self.path.glob(f"shard-*{PART}"))
        parts = [file for file in named if file.is_file()]  # without the dot: a former version's
        for file in (*parts, *self.path.glob(".vocabtool-*.tmp")):
            file.unlink()
        return len(parts)

    def shards(self, plan: Plan) -> dict[int, Shard]:
        """The shards that are there, by number.

        Raises :class:`InvalidFile`, which names the file, for one that is damaged or of another
        run: it is not overwritten unasked.
        """
        run, shards = plan.fingerprint, {}
        for name in self._shard_names():
            shard = read_shard(self.path / name)
            if shard.run != run:
                raise InvalidFile(
                    f"a shard of another run ({shard.run[:16]}, wanted {run[:16]}): remove it and "
                    "run again, and it is made anew",
                    file=str(self.path / name),
                )
            shards[shard.number] = shard
        return shards

    def finish(
        self, plan: Plan, shards: Mapping[int, Shard], resumed: Iterable[int], log: ReadLog
    ) -> Manifest:
        """Write the manifest: from now on the folder is whole.

        Shards that were ``resumed`` are read once more: the manifest holds the checksum of all,
        and nobody would know that one was damaged before. Raises :class:`InvalidFile`.
        """
        for number in resumed:
            for _ in read_row_groups(self.path / shards[number].file):
                pass
        ordered = tuple(shards[number] for number in sorted(shards))
        manifest = Manifest(
            plan.fingerprint,
            ordered,
            tuple(checksum(self.path / shard.file) for shard in ordered),
            log.skipped.count,
            log.repeated.count,
            tuple(log.skipped.first),
        )
        self._write(MANIFEST, manifest.to_json())
        return manifest

    def _write(self, name: str, data: bytes) -> None:
        with whole_file(self.path / name) as file:
            file.write(data)

    def _shard_names(self) -> list[str]:
        return sorted(file.name for file in self.path.iterdir() if NAMES.fullmatch(file.name))


@contextmanager
def open_folder(path: Path) -> Iterator[Folder]:
    """A folder to write in, made where it is missing, with nobody else in it.

    One that was made is removed where the block fails before a shard is in it.
    Raises :class:`FolderInUse`, and :class:`NotFound` where it holds what is no run.
    """
    is_new = not path.exists()
    with reading(str(path)):
        path.mkdir(parents=True, exist_ok=True)
        others = sorted(each.name for each in path.iterdir() if not BEGINNING.fullmatch(each.name))
        if others and not (path / RUN).exists():
            raise NotFound(
                f"{path}: not empty, and no run of `vocabtool embed` (it holds {others[0]!r}): "
                "name a new folder"
            )
    with lock_folder(path):
        folder = Folder(path)
        try:
            yield folder
        except BaseException:
            if is_new and not folder.has_shards():
                rmtree(path)
            raise
