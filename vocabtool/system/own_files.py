"""Files that vocabtool writes: atomic writes, folder locks, checksums, dataclasses as JSON.

A dataclass is stored in the key ``record`` of a JSON object, such as::

    {"vocabtool": "index", "version": 4, "crc32c": 2868718837, "record": {...}}

The checksum shows whether the record is damaged. The version shows whether the format is
compatible. The values are checked against the types of the dataclass.
"""

from __future__ import annotations

import fcntl
import json
import os
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from errno import EDQUOT, ENOSPC
from functools import cache
from math import isfinite
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    BinaryIO,
    Final,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from vocabtool.errors import FolderInUse, InvalidFile, NoSpace, NotFound, reading

READ: Final = 4 << 20


def checksum(path: Path, size: int | None = None) -> int:
    """Return the CRC-32C of a file, or of its first ``size`` bytes."""
    crc, left = 0, size
    with reading(str(path)), path.open("rb") as file:
        while block := file.read(READ if left is None else min(READ, left)):
            crc = checksum_of(block, crc)
            left = None if left is None else left - len(block)
        if left:
            raise InvalidFile(f"truncated: {left:,} of {size:,} bytes are missing")
    return crc


def compare(path: Path, wanted: int, size: int | None = None) -> None:
    crc = checksum(path, size)
    if crc != wanted:
        raise InvalidFile(f"damaged: CRC-32C {crc:08x}, expected {wanted:08x}", file=str(path))


def checksum_of(content: bytes, before: int = 0) -> int:
    """Return the CRC-32C of bytes. ``before``: that of the bytes before them."""
    import google_crc32c  # not needed to extract a vocabulary

    return int(google_crc32c.extend(before, content))


FULL: Final = (ENOSPC, EDQUOT)
LOW: Final = 1 << 18  # bytes; SQLite's index of its journal and tantivy's buffers need more


@contextmanager
def telling_full_disk(place: str | Path, what: str = "nothing was changed") -> Iterator[None]:
    """Raise :class:`NoSpace` instead of any error that a full disk causes.

    SQLite, tantivy, FAISS and Arrow have errors of their own for it, which may have become others.

    ``place``: named if the error names no file. ``what``: what the block leaves behind.
    """
    try:
        yield
    except NoSpace:
        raise
    except Exception as raised:
        error: BaseException | None = raised
        while error is not None and not _is_of_full_disk(error):
            error = error.__cause__ or error.__context__
        if error is None:
            raise
        file = getattr(raised, "file", None) or getattr(error, "filename", None) or place
        raise no_space(file, what) from raised


def no_space(file: str | Path, what: str = "nothing was changed") -> NoSpace:
    """Make the error of a full disk. ``what``: as in :func:`telling_full_disk`."""
    advice = "Free some space, and run it again"
    return NoSpace(f"no space left on {os.fspath(file)}; {what}. {advice}")


def is_disk_full(folder: Path) -> bool:
    """Whether a folder's disk has hardly any space: some errors of libraries do not say so."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize < LOW


def _is_of_full_disk(error: BaseException) -> bool:
    return (
        getattr(error, "sqlite_errorname", None) == "SQLITE_FULL"
        or getattr(error, "errno", None) in FULL
        or any(os.strerror(number) in str(error) for number in FULL)
    )


@contextmanager
def whole_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a new file for writing; it replaces ``path`` when the block ends without an error.

    Symbolic links are followed; an existing file keeps its permissions. A pipe or a device is
    written to directly.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise NotFound(f"{path.parent}: the folder does not exist")
    if path.exists() and not path.is_file():
        with path.open("wb") as device:
            yield device
        return
    beside = path.with_name(f".vocabtool-{os.urandom(6).hex()}.tmp")
    with telling_full_disk(path):
        file = beside.open("xb")
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if path.exists():
                beside.chmod(path.stat().st_mode & 0o7777)
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


CACHE: Final = "VOCABTOOL_CACHE"  # environment variable


def user_cache() -> Path:
    """Return the folder of copies that can be made again; it may not exist yet.

    It is ``$VOCABTOOL_CACHE``, or else ``$XDG_CACHE_HOME/vocabtool``, or else
    ``~/.cache/vocabtool``. Raises :class:`NotFound` if there is no home folder.
    """
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        if named := os.environ.get(CACHE):
            return Path(named).expanduser().absolute()
        if not shared.is_absolute():  # the XDG specification ignores relative paths
            shared = Path.home() / ".cache"
    except RuntimeError as error:
        raise NotFound(f"no home folder for copies of models; set ${CACHE} to a folder") from error
    return shared / "vocabtool"


def sync_folder(folder: Path) -> None:
    """Flush a folder's directory entries to disk, so that renames survive a crash."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


LOCK: Final = ".lock"
SERVER_LOCK: Final = ".server.lock"  # of a server that may write; commands write between its writes
_LOCKED: Final[set[tuple[int, int, int]]] = set()  # locks held: process id, device, inode
_ANOTHER: Final = "another process is writing to this folder; wait until it ends"
_OURS: Final = (
    "this process is already writing to this folder; finish the first `with index.writer()`, load "
    "or embed before you start another"
)


@contextmanager
def lock_folder(
    folder: Path, *, to_read: bool = False, name: str = LOCK, busy: str = _ANOTHER
) -> Iterator[None]:
    """Lock a folder until the block ends. Raises :class:`FolderInUse` if it is already locked.

    - ``to_read``: the folder may be one that this process may not write.
    - ``busy``: the message if another process has the lock.
    """
    lock = folder / name
    is_shared = to_read and not os.access(lock if lock.exists() else folder, os.W_OK)
    with reading(str(lock if is_shared else folder)):
        flags = os.O_RDONLY if is_shared else os.O_RDWR | os.O_CREAT
        handle = os.open(lock, flags, 0o644)
    file = os.fstat(handle)
    key = (os.getpid(), file.st_dev, file.st_ino)
    try:
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderInUse(f"{folder}: {_OURS if key in _LOCKED else busy}") from error
        except OSError as error:
            what = f"cannot be locked: {error.strerror}"
            raise NotFound(f"{folder}: {what}") from error
        _LOCKED.add(key)
        try:
            yield
        finally:  # a process forked in the meantime would keep the lock if we only closed it
            _LOCKED.discard(key)
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


Record = TypeVar("Record")
_fields = cache(fields)
_hints = cache(get_type_hints)


def encode_record(record: object, *, kind: str, version: int) -> bytes:
    value = to_json(record)
    head = {
        "vocabtool": kind,
        "version": version,
        "crc32c": checksum_of(json.dumps(value).encode()),
    }
    return json.dumps({**head, "record": value}, indent=1).encode() + b"\n"


def decode_record(
    data: bytes, record_type: type[Record], *, kind: str, version: int, advice: str = ""
) -> Record:
    """Return the record in a file of this kind and version.

    ``data``: the content of the file. Raises :class:`InvalidFile` for any other file, and for a
    damaged file. If the version differs, ``advice`` is added to the message.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"not a file of `vocabtool {kind}`, or damaged: {error}") from error
    if not isinstance(document, dict) or document.get("vocabtool") != kind:
        raise InvalidFile(f"not a file of `vocabtool {kind}`")
    if document.get("version") != version:
        what = f"version {document.get('version')!r} of the {kind} format, expected {version}"
        if advice:
            what += f"; {advice}"
        raise InvalidFile(f"written by another version of vocabtool: {what}")
    if document.get("crc32c") != checksum_of(json.dumps(document.get("record")).encode()):
        raise InvalidFile("damaged: wrong checksum")
    record: Record = from_json(record_type, document["record"], kind)
    return record


def to_json(value: object) -> Any:
    """Convert dataclasses and tuples for JSON; NaN and infinity become null."""
    if value is None or isinstance(value, str | int):  # most values: a search converts a hundred
        return value
    if isinstance(value, float):
        return value if isfinite(value) else None
    if hasattr(value, "_asdict"):
        value = value._asdict()  # of a NamedTuple
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if is_dataclass(value):
        kind: Any = type(value)
        return {field.name: to_json(getattr(value, field.name)) for field in _fields(kind)}
    if isinstance(value, Mapping):
        return {name: to_json(item) for name, item in value.items()}
    return value


def from_json(kind: Any, value: Any, name: str) -> Any:
    """Convert parsed JSON to a value of type ``kind``. ``name``: its name in error messages.

    Keys with a default may be missing. Raises :class:`InvalidFile` for wrong keys and types.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    is_tuple = hasattr(kind, "_fields")  # of a NamedTuple
    if isinstance(value, dict) and (is_tuple or is_dataclass(kind)):
        hints = _hints(cast(type, kind))
        for key in value:
            if key not in hints:
                raise InvalidFile(f"{name}.{key}: unknown entry")
        if is_tuple:
            required = kind._fields
        else:
            required = [
                field.name
                for field in fields(kind)
                if field.default is MISSING and field.default_factory is MISSING
            ]
        for key in required:
            if key not in value:
                raise InvalidFile(f"{name}.{key} is missing")
        items = {key: from_json(hints[key], item, f"{name}.{key}") for key, item in value.items()}
        return cast(type, kind)(**items)
    if origin in (Union, UnionType):
        if type(value) in arguments:
            return value
        others = [type_ for type_ in arguments if type_ is not NoneType]
        if isinstance(value, list) and str in others and len(others) == 2:
            others.remove(str)
        if len(others) == 1:
            return from_json(others[0], value, name)
    if origin is Literal and value in arguments:
        return value
    if origin is tuple and isinstance(value, list):
        kinds = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        if len(kinds) == len(value):
            pairs = enumerate(zip(kinds, value, strict=True))
            return tuple(from_json(type_, item, f"{name}[{i}]") for i, (type_, item) in pairs)
    if origin is Sequence and isinstance(value, list):
        return tuple(from_json(arguments[0], item, f"{name}[{i}]") for i, item in enumerate(value))
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, dict):
        return {key: from_json(arguments[1], item, f"{name}.{key}") for key, item in value.items()}
    if kind is float and type(value) in (int, float) and isfinite(value):
        return float(value)
    if kind in (int, str, bool) and type(value) is kind:
        return value
    shown = getattr(kind, "__name__", kind) if origin is None else kind
    # The text of a list that is nested deeply would take too many calls.
    got = reprlib.repr(value) if isinstance(value, list | dict) else str(value)[:100]
    raise InvalidFile(f"{name} must be {shown}, got {got!r}")
