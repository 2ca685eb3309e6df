"""The engine: finds an index by its address, creates, replaces, verifies and removes it.

    qdrant://HOST:6333/NAME            a server; ?https=true for TLS
    qdrant-local://FOLDER?index=NAME   the client's local mode, for one process and small trials

QDRANT_API_KEY in the environment is the key of the server.
"""

from __future__ import annotations

import atexit
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl
from uuid import uuid4

import numpy as np
from qdrant_client import QdrantClient, models

from vocabtool.errors import FolderNotEmpty, InvalidFile, NotFound, VocabtoolError
from vocabtool.index.folder import Manifest
from vocabtool.index.generation import Progress
from vocabtool.index.maintenance import VerifyReport
from vocabtool.index.model import IndexModel
from vocabtool.keywords.cutter import Cutter
from vocabtool_qdrant.collection import ONE_AT_A_TIME, Collection, Record
from vocabtool_qdrant.commit import QdrantCommit
from vocabtool_qdrant.documents import QdrantDocuments
from vocabtool_qdrant.filters import has
from vocabtool_qdrant.writer import QdrantWriter

PREFIX: Final = "vocabtool_"  # begins the names of our collections
BUILD: Final = ".new"  # ends the alias of an index that will replace another one
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}(?<!\.new)")
PIECE: Final = 1 << 20  # bytes of a file in one point
MAX_SECONDS: Final = 60  # of a request
METRICS: Final = {"cosine": "Dot", "inner-product": "Dot", "l2": "Euclid"}  # lengths are 1
KEYWORDS: Final = ("id", "words", "surfaces", "key", "file")
INTEGERS: Final = ("added", "gone", "answered", "text_hash", "source", "session", "stamp")
OLDEST: Final = (1, 16)  # earlier ones write the record whatever it was before
LOCAL: Final[dict[str, QdrantClient]] = {}  # one client for a folder, which it locks


class QdrantEngine:
    """One index in Qdrant; fulfils ``Engine``."""

    def __init__(self, collection: Collection) -> None:
        self.collection, self.name = collection, collection.where
        self.is_build = collection.alias.endswith(BUILD)

    notes: tuple[str, ...] = ()

    @classmethod
    def create(
        cls, address: str, manifest: Manifest, files: Mapping[str, bytes], *, replaces: bool
    ) -> QdrantEngine:
        held = parse(address, is_new=True)
        held.alias += BUILD if replaces else ""
        if earlier := aliases(held).get(held.alias):
            if not replaces:
                what = "already contains an index. Add to it (in Python: Index.open), start over"
                raise FolderNotEmpty(f"{held.where}: {what} with --force, or name a new index")
            held.call("delete_collection", earlier)
        held.name = PREFIX + manifest.index
        metric = models.Distance(METRICS[manifest.configuration.metric])
        dense = models.VectorParams(size=manifest.configuration.dim, distance=metric)
        sparse = {"terms": models.SparseVectorParams()}
        vectors = {"vectors_config": {"vector": dense}, "sparse_vectors_config": sparse}
        held.ask("create_collection", **vectors)
        if not held.is_local:
            for name in (*KEYWORDS, *INTEGERS):
                kind = "keyword" if name in KEYWORDS else "integer"
                held.ask("create_payload_index", field_name=name, field_schema=kind)
        for name, content in files.items():
            for at in range(0, max(len(content), 1), PIECE):
                piece = b64encode(content[at : at + PIECE]).decode()
                payload = {"file": name, "place": at, "piece": piece}
                point = models.PointStruct(id=str(uuid4()), payload=payload, vector={})
                held.ask("upsert", points=[point])
        held.ask("upsert", points=[Record(manifest=manifest).point])
        name_it(held)
        return cls(held)

    @classmethod
    def open(cls, address: str) -> QdrantEngine:
        held = parse(address)
        held.name = aliases(held).get(held.alias, "")
        if not held.name.startswith(PREFIX):
            what = "no index of this name; create one with `vocabtool index`"
            raise NotFound(f"{held.where}: {what}")
        return cls(held)

    def manifest(self) -> Manifest:
        return self.collection.read_record().manifest

    def model_file(self, name: str) -> bytes:
        found = self.collection.scan(has("file", name), ["place", "piece"])
        pieces = {each.payload["place"]: b64decode(each.payload["piece"]) for each in found}
        return b"".join(piece for _, piece in sorted(pieces.items()))

    def snapshot(self, model: IndexModel, cutter: Cutter) -> QdrantCommit:
        return QdrantCommit(self.collection, self.collection.read_record(), model, cutter)

    def writer(self, cutter: Cutter, memory: int | None) -> QdrantWriter:
        return QdrantWriter(self.collection, cutter)

    def put_in_place(self) -> None:
        held, build = self.collection, self.collection.alias
        held.alias = build.removesuffix(BUILD)
        earlier = aliases(held).get(held.alias)
        name_it(held, build, held.alias)
        self.is_build = False
        if earlier:
            held.call("delete_collection", earlier)

    def compact(self, progress: Progress | None) -> int:
        """Remove deleted documents, which readers of earlier commits may still see."""
        record = self.collection.read_record()
        gone = record.changed("gone")
        count = self.collection.count(gone)
        self.collection.ask("delete", points_selector=gone)
        self.collection.remove_killed(record)
        return count

    def verify(self, progress: Progress | None) -> VerifyReport:
        """Compare all texts with their hashes, and count again. Raises :class:`InvalidFile`."""
        record = self.collection.read_record()
        manifest = record.manifest
        for _ in QdrantDocuments(self.collection, record).stored_rows():
            pass  # it raises
        found = self.collection.scan(record.live, ["length", "surface_count"])
        sizes = [(each.payload["length"], each.payload["surface_count"]) for each in found]
        totals = [len(sizes), *np.array(sizes, np.int64).reshape(-1, 2).sum(axis=0).tolist()]
        wanted = [manifest.rows, manifest.words, manifest.surfaces]
        if totals != wanted:
            what = f"documents, words and identifiers are {totals}, the record says {wanted}"
            raise InvalidFile(f"damaged: {what}", file=self.name)
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
        if not self.collection.is_local:  # others may have opened the same folder
            self.collection.call("close")

    def remove(self, *, if_empty: bool = False) -> bool:
        # No writer that is open can commit after this.
        if if_empty and self.collection.open_session().manifest.rows:
            return False
        self.collection.ask("delete_collection")
        return True


def name_it(held: Collection, *earlier: str) -> None:
    """Give the collection its alias, and take the ``earlier`` ones away, all at once."""
    removed = [models.DeleteAlias(alias_name=each) for each in earlier]
    changes = [models.DeleteAliasOperation(delete_alias=each) for each in removed]
    made = models.CreateAlias(collection_name=held.name, alias_name=held.alias)
    created = models.CreateAliasOperation(create_alias=made)
    held.call("update_collection_aliases", [*changes, created])


def aliases(held: Collection) -> dict[str, str]:
    """Return the collection that each alias names."""
    found = held.call("get_aliases").aliases
    return {each.alias_name: each.collection_name for each in found}


def parse(address: str, *, is_new: bool = False) -> Collection:
    """Return the collection of an address, without its name. Messages show no password."""
    scheme, _, rest = address.partition("://")
    place, _, query = rest.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if is_local := scheme.lower() == "qdrant-local":
        alias, https, wanted = options.pop("index", ""), "false", "FOLDER?index=NAME"
    else:
        place, _, alias = place.rpartition("/")
        https, wanted = options.pop("https", "false"), "HOST:6333/NAME, ?https=true for TLS"
    shown = place if is_local else place.rpartition("@")[2]
    if not place or options or https not in ("true", "false") or not NAME.fullmatch(alias):
        what = f"wanted {scheme}://{wanted}; a NAME has 1 to 100 letters, digits, '_', '-' and '.'"
        raise VocabtoolError(f"{scheme}://{shown[:100]}: {what}, and does not end in {BUILD!r}")
    where = f"{scheme}://{shown}{'?index=' if is_local else '/'}{alias}"
    if shown != place:
        raise VocabtoolError(f"{where}: no key or password in the address: set QDRANT_API_KEY")
    if is_local and not is_new and not os.path.isdir(place):  # noqa: PTH112 - accepts any length
        raise NotFound(f"{where}: no such folder")
    try:
        client = local_client(place) if is_local else server_client(place, is_tls=https == "true")
    except (OSError, RuntimeError, ValueError) as error:
        raise VocabtoolError(f"{where}: cannot be opened: {error}") from error
    held = Collection(client, alias, where, is_local=is_local)
    if not is_local and version_of(found := held.call("info").version) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise VocabtoolError(f"{where}: Qdrant {found}, wanted {wanted} or later")
    return held


def server_client(place: str, *, is_tls: bool) -> QdrantClient:
    key, url = os.environ.get("QDRANT_API_KEY"), f"{'https' if is_tls else 'http'}://{place}"
    return QdrantClient(url, api_key=key, timeout=MAX_SECONDS, check_compatibility=False)


def local_client(place: str) -> QdrantClient:
    folder = os.path.realpath(place)
    with ONE_AT_A_TIME:
        if folder not in LOCAL:
            LOCAL[folder] = QdrantClient(path=folder, force_disable_check_same_thread=True)
            atexit.register(LOCAL[folder].close)
    return LOCAL[folder]


def version_of(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("-", maxsplit=1)[0].split(".")[:2])
