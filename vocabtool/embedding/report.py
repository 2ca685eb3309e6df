"""What a run reports: on its way, and when it is done."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from vocabtool.documents.batch import Skip
from vocabtool.embedding.shard_files import Counts


@dataclass(frozen=True, slots=True)
class EmbedReport:
    """What a run did. ``counts``: of the whole folder; ``encoded``: documents done this time.

    ``resumed``: shards that were there; ``redone``: shards that were begun and lost before.
    ``hits``: vectors that the cache held. ``skipped``: bad rows; ``dropped``: documents of an id
    that was there before. ``seconds``: from the first document to the manifest. ``notes``: of the
    encoder and, where shards were made, kept fields that no document has.
    """

    folder: str
    shards: int
    counts: Counts
    encoded: int
    resumed: int
    redone: int
    hits: int
    skipped: int
    first_skipped: tuple[Skip, ...]
    dropped: int
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Documents a second, of those done this time."""
        return self.encoded / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, object]:
        """As a machine reads it."""
        record = asdict(self)
        counts = record.pop("counts")
        first = [skip._asdict() for skip in self.first_skipped]
        return {**record, **counts, "first_skipped": first, "rate": self.rate}


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: what was done this time, vectors that the cache held, seconds gone.

    ``read`` of ``to_do``: bytes of the files, as read so far; ``to_do`` is ``None`` for a stream.
    ``passed``, ``passed_read``: seconds gone and bytes read when the first documents were done:
    what a run that is gone on with finds done takes next to no time, and tells no speed.
    """

    counts: Counts
    hits: int
    seconds: float
    read: int
    to_do: int | None
    passed: float = 0.0
    passed_read: int = 0

    @property
    def rate(self) -> float:
        """Documents a second."""
        return self.counts.documents / self.seconds if self.seconds else 0.0

    @property
    def remaining(self) -> float | None:
        """Seconds still to go, at the speed so far; ``None`` where nothing tells."""
        read = self.read - self.passed_read
        if not self.to_do or read <= 0:
            return None
        return (self.seconds - self.passed) * max(self.to_do - self.read, 0) / read
