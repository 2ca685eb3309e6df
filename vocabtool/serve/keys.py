"""Random keys of a server. A file stores the SHA-256 of each key, one JSON object per line:

    {"name": "team", "access": "read", "sha256": "5e88..."}

A fast hash without salt is enough, because nobody can try all keys of 256 random bits.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Final

from vocabtool.choices import Access
from vocabtool.errors import InvalidFile, VocabtoolError, reading
from vocabtool.serve.problems import LOG, NotReady
from vocabtool.system.own_files import from_json, whole_file

PREFIX: Final = "vocabtool_"  # tools that look for leaked keys can recognise ours
KEY_BYTES: Final = 32
MAX_KEY: Final = 200  # characters of what a request presents as its key
MAX_KEYS: Final = 1_000
MAX_FILE: Final = 1 << 20  # bytes
REREAD_SECONDS: Final = 1.0
NAMED: Final = "a key's name has 1 to 100 letters, digits and any of _ . @ + -"
NAME: Final = re.compile(r"[\w.@+-]{1,100}")
DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """A key as stored in the file. ``access``: what the key allows; ``write`` includes reading."""

    name: str
    access: Access
    sha256: str


def make_key(path: Path, name: str, access: Access) -> str:
    """Make a key, add its hash to a file, and return the key.

    The file is created if it does not exist, and has the mode 0600. Several processes may add keys.
    Raises :class:`VocabtoolError` if the name is invalid or already in the file, and
    :class:`InvalidFile` if the file is damaged.
    """
    if not NAME.fullmatch(name):
        raise VocabtoolError(f"{NAMED}, got {name!r:.120}")
    text = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    key = Key(name=name, access=access, sha256=_digest(text))
    path = Path(os.path.realpath(path))
    with _exclusive(path.parent):
        before = path.read_bytes() if path.exists() else b""
        lines = [*before.splitlines(), json.dumps(asdict(key)).encode()]
        after = b"".join(line + b"\n" for line in lines)
        with reading(str(path)):
            if any(each.name == name for each in decode_keys(before)):
                what = f"{path}: there is already a key named {name!r}"
                raise VocabtoolError(f"{what}; choose another name, or delete the line of that key")
            decode_keys(after)  # not too many
        with whole_file(path) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(after)
    return text


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Lock a folder during the ``with`` block."""
    # A lock on the file of keys would be lost when the file is replaced.
    with reading(str(folder)):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def decode_keys(content: bytes) -> tuple[Key, ...]:
    """Return the keys in the content of a file. Empty lines are skipped.

    Raises :class:`InvalidFile` if the file is damaged or has too many keys.
    """
    if len(content) > MAX_FILE:
        raise InvalidFile(
            f"a file of keys can have at most {MAX_FILE:,} bytes, got {len(content):,}"
        )
    keys: dict[str, Key] = {}
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):  # the line may be a key itself: it is not shown
            raise InvalidFile(f"line {number}: not a line that `vocabtool api-key` wrote")
        key: Key = from_json(Key, value, f"line {number}")
        if not NAME.fullmatch(key.name):
            raise InvalidFile(f"line {number}: {NAMED}, got {key.name!r:.120}")
        if not DIGEST.fullmatch(key.sha256):
            raise InvalidFile(f"line {number}: sha256 must be 64 hexadecimal digits")
        if key.name in keys:
            raise InvalidFile(f"line {number}: there is already a key named {key.name!r}")
        keys[key.name] = key
    if len(keys) > MAX_KEYS:
        raise InvalidFile(f"a file of keys can have at most {MAX_KEYS:,} keys, got {len(keys):,}")
    return tuple(keys.values())


class KeyFile:
    """The keys of a file. The file is read again when it changes, so that keys can be revoked.

    ``clock``: a function that returns the time in seconds.

    The constructor raises :class:`NotFound` if the file cannot be read, and :class:`InvalidFile`
    if it is damaged.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._problem = False
        self._read()

    def find(self, text: str) -> Key | None:
        """Return the key that a client sent as ``text``, or ``None`` if it is not valid.

        Hashes are compared in constant time. Raises :class:`NotReady` while the file is missing or
        damaged.
        """
        if self._clock() - self._checked >= REREAD_SECONDS:
            self._refresh()
        if self._problem:
            raise NotReady("the file of keys cannot be read; the log of the server says why")
        if len(text) > MAX_KEY:
            return None
        digest, found = _digest(text), None
        for key in self._keys:
            if compare_digest(key.sha256, digest):
                found = key
        return found

    def _refresh(self) -> None:
        try:
            if self._state() != self._seen or self._problem:
                self._read()
            self._checked = self._clock()
        except (VocabtoolError, OSError) as error:
            if not self._problem:
                LOG.error("no key is valid: %s", error)
            self._problem, self._checked = True, self._clock()

    def _read(self) -> None:
        with reading(str(self._path)):
            self._seen = self._state()  # before the content: a later change is seen
            with self._path.open("rb") as file:
                self._keys = decode_keys(file.read(MAX_FILE + 1))
        self._problem, self._checked = False, self._clock()

    def _state(self) -> tuple[int, int, int]:
        found = self._path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino
