"""The engine: finds an index by its address, creates, replaces, verifies and removes it.

    qdrant://HOST:6333/NAME      a server; ?https=true for TLS
    qdrant-local://FOLDER/NAME   the client's local mode, for one process and small trials

QDRANT_API_KEY in the environment is the key of the server.
"""

from __future__ import annotations

import atexit
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

from qdrant_client import QdrantClient, models

from vocabtool.errors import FolderNotEmpty, NotFound, VocabtoolError
from vocabtool.index.folder import Manifest
from vocabtool.index.generation import Progress
from vocabtool.index.maintenance import VerifyReport
from vocabtool.index.model import IndexModel
from vocabtool.keywords.cutter import Cutter
from vocabtool_qdrant.collection import FAILURES, ONE_AT_A_TIME, Collection, Record
from vocabtool_qdrant.commit import QdrantCommit
from vocabtool_qdrant.documents import QdrantDocuments
from vocabtool_qdrant.filters import has
from vocabtool_qdrant.writer import QdrantWriter

PREFIX: Final = "vocabtool_"  # begins the names of our collections
BUILD: Final = ".new"  # ends the alias of an index that will replace another one
NAME: Final = r"([A-Za-z0-9][A-Za-z0-9_.-]{0,99}(?<!\.new))"
SERVER: Final = re.compile(rf"qdrant://([^/?#@\\\s]+)/{NAME}(\?https=true)?", re.IGNORECASE)
FOLDER: Final = re.compile(rf"qdrant-local://(.+)/{NAME}", re.IGNORECASE)
PIECE: Final = 1 << 20  # bytes of a file in one point
PIECES: Final = 8  # in a request
MAX_SECONDS: Final = 60  # of a request
METRICS: Final = {"cosine": "Dot", "inner-product": "Dot", "l2": "Euclid"}  # lengths are 1
INDEXED: Final = {
    "keyword": ("id", "words", "surfaces", "key", "file"),
    "integer": ("added", "gone", "answered", "text_hash", "source", "session", "stamp"),
}
OLDEST: Final = (1, 16)  # earlier ones write the record whatever it was before
WANTED: Final = "wanted qdrant://HOST:6333/NAME, ?https=true for TLS, or qdrant-local://FOLDER/NAME"
RULES: Final = "NAME: 1 to 100 letters, digits, '_', '-' and '.'; the key is in QDRANT_API_KEY"
THIS_MACHINE: Final = ("localhost", "127.0.0.1", "::1")
LOCAL: Final[dict[str, QdrantClient]] = {}  # one client for a folder, which it locks


class QdrantEngine:
    """One index in Qdrant; fulfils ``Engine``."""

    notes: tuple[str, ...] = ()

    def __init__(self, collection: Collection) -> None:
        self.collection, self.name = collection, collection.where
        self.is_build = collection.alias.endswith(BUILD)

    @classmethod
    def create(
        cls, address: str, manifest: Manifest, files: Mapping[str, bytes], *, replaces: bool
    ) -> QdrantEngine:
        collection = connect(address, is_new=True)
        with ExitStack() as undo:
            undo.callback(collection.close)
            if collection.name and not replaces:
                what = "already contains an index. Add to it (in Python: Index.open), start over"
                raise FolderNotEmpty(f"{collection.where}: {what} with --force, or name a new one")
            if replaces:
                collection.alias += BUILD
                if unfinished := name_of(collection, collection.alias):
                    collection.call("delete_collection", unfinished)
            collection.name = PREFIX + manifest.index
            undo.callback(collection.ask, "delete_collection")
            fill(collection, manifest, files)
            set_alias(collection, collection.alias)
            undo.pop_all()
        return cls(collection)

    @classmethod
    def open(cls, address: str) -> QdrantEngine:
        return cls(connect(address))

    @classmethod
    def open_to_remove(cls, address: str) -> list[QdrantEngine]:
        return [cls.open(address)]

    def manifest(self) -> Manifest:
        return self.collection.read_record().manifest

    def model_file(self, name: str) -> bytes:
        points = self.collection.scan(has("file", name), ["place", "piece"], limit=PIECES)
        pieces = {each.payload["place"]: b64decode(each.payload["piece"]) for each in points}
        return b"".join(piece for _, piece in sorted(pieces.items()))

    def snapshot(self, model: IndexModel, cutter: Cutter) -> QdrantCommit:
        return QdrantCommit(self.collection, self.collection.read_record(), model, cutter)

    def writer(self, cutter: Cutter, memory: int | None) -> QdrantWriter:
        return QdrantWriter(self.collection, cutter)

    def put_in_place(self) -> None:
        alias = self.collection.alias.removesuffix(BUILD)
        earlier = name_of(self.collection, alias)
        set_alias(self.collection, alias, self.collection.alias, *([alias] if earlier else []))
        self.is_build = False
        if earlier:
            self.collection.call("delete_collection", earlier)

    def compact(self, progress: Progress | None) -> int:
        """Remove deleted documents, which readers of earlier commits may still see."""
        record = self.collection.read_record()
        gone = record.changed("gone")
        count = self.collection.count(gone)
        self.collection.ask("delete", points_selector=gone)
        self.collection.remove_killed(record)
        return count

    def verify(self, progress: Progress | None) -> VerifyReport:
        """Cut all texts again, and compare. Raises :class:`InvalidFile`."""
        record = self.collection.read_record()
        manifest = record.manifest
        cutter = Cutter(manifest.configuration.language)
        QdrantDocuments(self.collection, record).verify(cutter)
        return VerifyReport(
            documents=manifest.rows,
            deleted=self.collection.count(record.changed("gone")),
            commit=manifest.commit,
            recall=1.0,
            approximate=False,
            loading=manifest.load is not None and not manifest.load.finished,
            others=(),
        )

    def sizes(self) -> Mapping[str, int]:
        return {}  # Qdrant does not tell

    def close(self) -> None:
        self.collection.close()

    def remove(self, *, if_empty: bool = False) -> bool:
        if if_empty:
            record = self.collection.read_record()
            if record.manifest.rows:
                return False
            self.collection.open_session(record)  # no writer that is open can commit after this
        self.collection.ask("delete_collection")
        return True


def fill(collection: Collection, manifest: Manifest, files: Mapping[str, bytes]) -> None:
    """Create the collection, with the files of the model and the first record."""
    metric = models.Distance(METRICS[manifest.configuration.metric])
    no_graph = models.HnswConfigDiff(m=0)  # all vectors are compared
    size = manifest.configuration.dim
    dense = models.VectorParams(size=size, distance=metric, hnsw_config=no_graph)
    sparse = {"terms": models.SparseVectorParams()}
    vectors = {"vectors_config": {"vector": dense}, "sparse_vectors_config": sparse}
    collection.ask("create_collection", **vectors)
    if not collection.is_local:
        for kind, name in ((kind, name) for kind, names in INDEXED.items() for name in names):
            collection.ask("create_payload_index", field_name=name, field_schema=kind)
    for name, content in files.items():
        for at in range(0, max(len(content), 1), PIECE):
            piece = b64encode(content[at : at + PIECE]).decode()
            payload = {"file": name, "place": at, "piece": piece}
            point = models.PointStruct(id=str(uuid4()), payload=payload, vector={})
            collection.ask("upsert", points=[point])
    collection.ask("upsert", points=[Record(manifest=manifest).point])


def set_alias(collection: Collection, alias: str, *earlier: str) -> None:
    """Give the collection its alias, and take the ``earlier`` ones away, all at once."""
    removed = [models.DeleteAlias(alias_name=each) for each in earlier]
    changes = [models.DeleteAliasOperation(delete_alias=each) for each in removed]
    made = models.CreateAlias(collection_name=collection.name, alias_name=alias)
    created = models.CreateAliasOperation(create_alias=made)
    collection.call("update_collection_aliases", [*changes, created])
    collection.alias = alias


def name_of(collection: Collection, alias: str) -> str:
    """Return the name of the collection of an index, empty if there is none.

    Raises :class:`VocabtoolError` if the alias, or a collection of its name, is not ours.
    """
    aliases = collection.call("get_aliases").aliases
    names = {each.alias_name: each.collection_name for each in aliases}
    names |= {each.name: each.name for each in collection.call("get_collections").collections}
    name: str = names.get(alias, "")
    if name and (name == alias or not name.startswith(PREFIX)):
        what = f"{alias!r} is the collection {name!r}, which is no index; choose another NAME"
        raise VocabtoolError(f"{collection.where}: {what}")
    return name


def connect(address: str, *, is_new: bool = False) -> Collection:
    """Return the collection of an index; without its name if it ``is_new`` and there is none."""
    match = FOLDER.fullmatch(address) or SERVER.fullmatch(address)
    if match is None:  # it may contain a password
        raise VocabtoolError(f"{address.partition('://')[0]}://...: {WANTED}. {RULES}")
    where, place, is_local = address.partition("?")[0], match[1], match.re is FOLDER
    if is_local and not is_new and not os.path.isdir(place):  # noqa: PTH112 - accepts any length
        raise NotFound(f"{where}: no such folder")
    try:
        client = local_client(place) if is_local else server_client(place, is_tls=bool(match[3]))
    except FAILURES as error:
        raise VocabtoolError(f"{where}: cannot be opened: {error}") from error
    collection = Collection(client, match[2], where, is_local=is_local)
    with ExitStack() as undo:
        undo.callback(collection.close)
        if not is_local:
            version = collection.call("info").version
            if tuple(map(int, version.split(".")[:2])) < OLDEST:
                wanted = ".".join(map(str, OLDEST))
                raise VocabtoolError(f"{where}: Qdrant {version}, wanted {wanted} or later")
        collection.name = name_of(collection, collection.alias)
        if not (collection.name or is_new):
            raise NotFound(f"{where}: no index of this name; create one with `vocabtool index`")
        undo.pop_all()
    return collection


def server_client(host: str, *, is_tls: bool) -> QdrantClient:
    key, url = os.environ.get("QDRANT_API_KEY"), f"{'https' if is_tls else 'http'}://{host}"
    if key and not is_tls and urlsplit(url).hostname not in THIS_MACHINE:
        raise VocabtoolError(f"{host}: no encryption for QDRANT_API_KEY: add ?https=true")
    return QdrantClient(url, api_key=key, timeout=MAX_SECONDS, check_compatibility=False)


def local_client(place: str) -> QdrantClient:
    folder = os.path.realpath(place)
    with ONE_AT_A_TIME:
        if folder not in LOCAL:
            LOCAL[folder] = QdrantClient(path=folder, force_disable_check_same_thread=True)
            atexit.register(LOCAL[folder].close)
    return LOCAL[folder]
