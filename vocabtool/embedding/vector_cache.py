"""Vectors by encoder and text: what was encoded once is looked up, in later runs and corpora too.

One SQLite file for each encoder, which several threads and processes share; each distinct text has
one row. Keys are the first 16 bytes of the text's SHA-256, values float32 in little-endian order.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, Lock
from time import monotonic, sleep
from typing import Final

import numpy as np
import pyarrow as pa

from vocabtool.encoders.encoder import Vectors
from vocabtool.errors import InvalidFile, NotFound, reading
from vocabtool.tokenization.text_arrays import as_bytes

KEY_BYTES: Final = 16
MAX_KEYS: Final = 500  # in one query, fewer than any SQLite allows
WAIT_SECONDS: Final = 60.0  # for another process that writes
PAUSE_SECONDS: Final = 0.01
TABLE: Final = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)"

Encode = Callable[[pa.StringArray], Vectors]


class VectorCache:
    """The vectors of one encoder in a folder; several threads may ask it.

    ``fingerprint``, ``dim``: of the encoder. Raises :class:`InvalidFile` where the file there is
    no such cache, :class:`NotFound` where the folder cannot be made.
    """

    def __init__(self, folder: Path, fingerprint: str, dim: int) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NotFound(f"{folder}: no folder for a cache: {error.strerror}") from error
        self.file = folder / f"{hashlib.sha256(fingerprint.encode()).hexdigest()}.sqlite"
        self._dim = dim
        self._lock = Lock()
        self._claimed: set[bytes] = set()  # keys that some thread is encoding
        self._changed = Condition()
        end = monotonic() + WAIT_SECONDS
        with _errors(self.file):
            self._connection = sqlite3.connect(
                self.file, timeout=WAIT_SECONDS, check_same_thread=False
            )
            try:
                # Several may begin at once, and SQLite does not wait for the change to a log.
                while not self._has_log():
                    if monotonic() > end:
                        raise sqlite3.OperationalError("another process keeps it to itself")
                    sleep(PAUSE_SECONDS)
                self._connection.execute("PRAGMA synchronous=NORMAL")  # a kill loses nothing
                self._connection.execute(TABLE)
            except sqlite3.DatabaseError:
                self._connection.close()
                raise

    def _has_log(self) -> bool:
        try:
            self._connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            return False
        return True

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    def vectors(self, texts: pa.StringArray, encode: Encode) -> tuple[Vectors, int]:
        """The vector of each text, shape (n, dim), and how many of them need not be encoded.

        ``encode`` gets the texts that are new, each once, in order.
        """
        keys = [hashlib.sha256(text).digest()[:KEY_BYTES] for text in as_bytes(texts)]
        first = {key: row for row, key in reversed([*enumerate(keys)])}
        distinct = sorted(first, key=first.__getitem__)
        found, encoded = self._read(distinct), 0
        while missing := [key for key in distinct if key not in found]:
            # Of two threads that meet the same new text one encodes it, the other waits.
            with self._changed:
                own = [key for key in missing if key not in self._claimed]
                self._claimed.update(own)
                while not own and not self._claimed.isdisjoint(missing):
                    self._changed.wait()
            try:
                found |= self._read(own or missing)  # another thread may have been quicker
                new = [key for key in own if key not in found]
                if new:
                    made = encode(texts.take(np.array([first[key] for key in new])))
                    rows = (vector.tobytes() for vector in made.astype("<f4", copy=False))
                    with self._transaction() as connection:
                        connection.executemany(
                            "INSERT OR IGNORE INTO vectors VALUES (?, ?)",
                            zip(new, rows, strict=True),
                        )
                    found |= zip(new, made, strict=True)
                encoded += len(new)
            finally:
                with self._changed:
                    self._claimed.difference_update(own)
                    self._changed.notify_all()
        vectors = np.empty((len(keys), self._dim), np.float32)
        for row, key in enumerate(keys):
            vectors[row] = found[key]
        return vectors, len(keys) - encoded

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Vectors]:
        """The vectors that are there."""
        found: dict[bytes, Vectors] = {}
        with self._transaction() as connection:
            for at in range(0, len(keys), MAX_KEYS):
                part = keys[at : at + MAX_KEYS]
                marks = ",".join("?" * len(part))
                query = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608 - question marks only
                for key, held in connection.execute(query, part):
                    if not isinstance(held, bytes) or len(held) != self._dim * 4:
                        what = f"no vector of {self._dim * 4} bytes"
                        raise InvalidFile(f"damaged: what it holds is {what}")
                    found[key] = np.frombuffer(held, "<f4")
                    if not np.isfinite(found[key]).all():
                        raise InvalidFile("damaged: a vector in it holds what is no finite number")
        return found

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, _errors(self.file), self._connection:
            yield self._connection


@contextmanager
def _errors(file: Path) -> Iterator[None]:
    """What SQLite says of the file as our error."""
    try:
        with reading(str(file)):
            yield
    except sqlite3.DatabaseError as error:
        what = f"the cache of vectors cannot be used: {error}"
        raise InvalidFile(what, file=str(file)) from error
