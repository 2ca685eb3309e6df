"""The folder of a run: who writes in it, which run it is of, which shards are done.

    _run.json              the plan, before anything else; replaced while there is no shard of it
    shard-000000.parquet   appears when it is whole; until then: ``.shard-000000.parquet.….part``
    _manifest.json         last, when every shard is there: their names, sizes and checksums
    _weights.json          of an encoder whose weights were fitted on the corpus
    .lock                  held by the process that writes

What is in a shard is ``shard_files.py``'s business. Reading a finished folder is in ``shards.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from typing import Final

from vocabtool.documents.reading import ReadLog, Skip
from vocabtool.embedding.encoding import Counts
from vocabtool.embedding.inputs import is_count
from vocabtool.embedding.plan import Plan
from vocabtool.embedding.shard_files import (
    BESIDE,
    NAME,
    NAMES,
    Shard,
    check_pages,
    read_shard,
)
from vocabtool.encoders.word_weights import FittedWeights
from vocabtool.errors import InvalidFile, NotFound, reading
from vocabtool.formats import json_parsing
from vocabtool.system.checksums import checksum
from vocabtool.system.folder_lock import locked
from vocabtool.system.whole_file import whole_file

RUN: Final = "_run.json"
MANIFEST: Final = "_manifest.json"
WEIGHTS: Final = "_weights.json"
FORMAT: Final = 1
# What a run that is killed as it begins leaves behind.
BEGUN: Final = re.compile(r"\.lock|_weights\.json|\.vocabtool-.*\.tmp")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A finished run. ``checksums``: CRC-32C of each shard's file. ``skipped``: bad rows."""

    run: str
    shards: tuple[Shard, ...]
    checksums: tuple[int, ...]
    skipped: int
    dropped: int
    first_skipped: tuple[Skip, ...]

    @property
    def counts(self) -> Counts:
        """Of all shards together."""
        return sum((shard.counts for shard in self.shards), Counts())

    def holds(self, shards: Mapping[int, Shard]) -> bool:
        """Whether these are all of its shards, as they were."""
        return tuple(shards[number] for number in sorted(shards)) == self.shards

    def to_json(self) -> bytes:
        """As it is kept; the same run gives the same bytes."""
        shards = [
            {"file": shard.file, "bytes": shard.size, "crc32c": crc, **asdict(shard.counts)}
            for shard, crc in zip(self.shards, self.checksums, strict=True)
        ]
        held = {
            "vocabtool_manifest": FORMAT,
            "run": self.run,
            **asdict(self.counts),
            "skipped": self.skipped,
            "dropped": self.dropped,
            "first_skipped": [skip._asdict() for skip in self.first_skipped],
            "shards": shards,
        }
        return json.dumps(held, indent=1).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        """Raises :class:`InvalidFile` for what :meth:`to_json` did not write."""
        held = json_parsing.parse(data)
        try:
            if held["vocabtool_manifest"] != FORMAT:
                raise InvalidFile(f"written by another vocabtool: wanted version {FORMAT}")
            shards, checksums = [], []
            for number, each in enumerate(held["shards"]):
                file, size, crc = each.pop("file"), each.pop("bytes"), each.pop("crc32c")
                if file != NAME.format(number):
                    raise InvalidFile(f"shard {number} is called {file!r}")
                shards.append(Shard(file, number, held["run"], size, Counts.of(each)))
                checksums.append(crc)
            first = tuple(Skip(**skip) for skip in held["first_skipped"])
            numbers = [shard.size for shard in shards] + checksums
            if not all(map(is_count, (*numbers, held["skipped"], held["dropped"]))):
                raise InvalidFile("not a manifest of `vocabtool embed`: its numbers are none")
            if not all(type(each) is str for skip in first for each in (held["run"], *skip)):
                raise InvalidFile("not a manifest of `vocabtool embed`: its texts are none")
            manifest = cls(
                held["run"],
                tuple(shards),
                tuple(checksums),
                held["skipped"],
                held["dropped"],
                first,
            )
        except (TypeError, KeyError, AttributeError) as error:
            raise InvalidFile(f"not a manifest of `vocabtool embed`: {error}") from error
        if manifest.to_json() != data:
            raise InvalidFile("not a manifest of `vocabtool embed`: it was changed by hand")
        return manifest


class Folder:
    """A folder that one run is written into. Made by :func:`opened`."""

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
        return bool(self._shard_files()) or (manifest is not None and bool(manifest.shards))

    def weights(self) -> FittedWeights | None:
        """The weights that the shards here were made with; ``None``: none are kept."""
        file = self.path / WEIGHTS
        return FittedWeights.read(file) if file.exists() and self.has_shards() else None

    def begin(self, plan: Plan, weights: FittedWeights | None) -> None:
        """Keep what the run is: its description last, from then on there is a run."""
        if weights is None:
            (self.path / WEIGHTS).unlink(missing_ok=True)
        else:
            weights.write(self.path / WEIGHTS)
        self.write(RUN, plan.to_json())

    def write(self, name: str, data: bytes) -> None:
        """A small file, which appears when it is whole."""
        with whole_file(self.path / name) as file:
            file.write(data)

    def clear(self) -> None:
        """Remove what a run made, manifest first; what is not of a run stays.

        So does its description, until another takes its place: the folder is a run's all the time.
        """
        for name in (MANIFEST, *self._shard_files()):
            (self.path / name).unlink(missing_ok=True)

    def unfinished(self) -> int:
        """Remove shards that were being written when a run was stopped; how many there were."""
        named = (*self.path.glob(f".shard-*{BESIDE}"), *self.path.glob(f"shard-*{BESIDE}"))
        parts = [file for file in named if file.is_file()]  # without the dot: a former version's
        for file in (*parts, *self.path.glob(".vocabtool-*.tmp")):
            file.unlink()
        return len(parts)

    def done(self, plan: Plan) -> dict[int, Shard]:
        """The shards that are there, by number.

        Raises :class:`InvalidFile`, which names the file, for one that is damaged or of another
        run: it is not overwritten unasked.
        """
        run = plan.fingerprint
        found = {}
        for name in self._shard_files():
            shard = read_shard(self.path / name)
            if shard.run != run:
                raise InvalidFile(
                    f"a shard of another run ({shard.run[:16]}, wanted {run[:16]}): remove it and "
                    "run again, and it is made anew",
                    file=str(self.path / name),
                )
            found[shard.number] = shard
        return found

    def finish(
        self, plan: Plan, shards: Mapping[int, Shard], resumed: Iterable[int], log: ReadLog
    ) -> Manifest:
        """Write the manifest: from now on the folder is whole.

        Shards that were ``resumed`` are read once more: the manifest tells the checksum of all,
        and nobody would know that one was damaged before. Raises :class:`InvalidFile`.
        """
        for number in resumed:
            check_pages(self.path / shards[number].file)
        ordered = tuple(shards[number] for number in sorted(shards))
        manifest = Manifest(
            plan.fingerprint,
            ordered,
            tuple(checksum(self.path / shard.file) for shard in ordered),
            log.skipped.count,
            log.repeated.count,
            tuple(log.skipped.first),
        )
        self.write(MANIFEST, manifest.to_json())
        return manifest

    def _shard_files(self) -> list[str]:
        return sorted(file.name for file in self.path.iterdir() if NAMES.fullmatch(file.name))


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder; ``None``: there is none."""
    file = folder / MANIFEST
    if not file.exists():
        return None
    with reading(str(file)):
        return Manifest.from_json(_content(file))


def read_plan(folder: Path) -> Plan | None:
    """The plan of the run in a folder; ``None``: there is none."""
    file = folder / RUN
    if not file.exists():
        return None
    with reading(str(file)):
        return Plan.from_json(_content(file))


def _content(file: Path) -> bytes:
    with file.open("rb") as opened:
        data = opened.read(json_parsing.MAX_FILE + 1)
    if len(data) > json_parsing.MAX_FILE:
        raise InvalidFile(f"more than {json_parsing.MAX_FILE:,} bytes of JSON")
    return data


@contextmanager
def opened(path: Path) -> Iterator[Folder]:
    """A folder to write in, made where it is missing, with nobody else in it.

    One that was made is removed where the block fails before a shard is in it.
    Raises :class:`FolderInUse`, and :class:`VocabtoolError` where it holds what is no run.
    """
    new = not path.exists()
    with reading(str(path)):
        path.mkdir(parents=True, exist_ok=True)
        _refuse_others(path)
    with locked(path):
        folder = Folder(path)
        try:
            yield folder
        except BaseException:
            if new and not folder.has_shards():
                rmtree(path)
            raise


def _refuse_others(path: Path) -> None:
    """Raise :class:`NotFound` unless a run is here, or what is left of one that just began."""
    if (path / RUN).exists():
        return
    names = (file.name for file in path.iterdir())
    others = sorted(name for name in names if not BEGUN.fullmatch(name))
    if others:
        raise NotFound(
            f"{path}: not empty, and no run of `vocabtool embed` (it holds {others[0]!r}): "
            "name a new folder"
        )
