"""The indexes that a server has open, and the threads that search and change them.

Indexes are opened in a thread, so that ``/health`` answers at once. The server looks for new
commits every ``REFRESH_SECONDS``. A search reads one commit from beginning to end.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Literal, TypeVar

from vocabtool.documents.batch import Document
from vocabtool.errors import NoVocabulary
from vocabtool.index.index import Index
from vocabtool.search.hits import Hits
from vocabtool.serve.answers import LOG, MAX_NAME, ServeError, not_ready, without_folders
from vocabtool.tokenization.words import Words

REFRESH_SECONDS: Final = 0.5
THREADS: Final = 8  # that search at the same time
OPENING: Final = "it is being opened"
OF_ENGINE: Final = "its engine did not open it; the log of the server says why"

Result = TypeVar("Result")


@dataclass(slots=True)
class RequestFacts:
    """Facts of one request, for its log line and the metrics.

    - ``id``: the value of the answer's header ``X-Request-Id``.
    - ``seconds``: how long each step took, by the name of the step.
    - ``searched``: when the search ended, by :func:`time.perf_counter`; ``None`` without a search.
    - ``hits``, ``query``: ``None`` without a search.
    """

    id: str
    seconds: dict[str, float] = field(default_factory=dict)
    searched: float | None = None
    hits: int | None = None
    query: str | None = None


REQUEST_FACTS: Final[ContextVar[RequestFacts | None]] = ContextVar("request_facts", default=None)


def note_search(hits: Hits) -> None:
    """Store the number of hits, the query and the times of a search in the running request."""
    facts = REQUEST_FACTS.get()
    if facts is not None:
        facts.seconds |= {step: hits.seconds[step] for step in ("encode", "search")}
        facts.hits, facts.query = len(hits), hits.query.text
        facts.searched = perf_counter()


@dataclass
class ServedIndex:
    """An index, and the name under which it is served.

    - ``folder``: the path or the address of the index. An address may contain a password.
    - ``problem``: why the index is not open; ``None`` if it is open.
    """

    name: str
    folder: Path | str = field(repr=False)
    index: Index | None = None
    problem: str | None = OPENING
    _logged: str | None = None

    @property
    def status(self) -> Literal["ready", "loading", "failed"]:
        """Whether the index can be searched, is being opened, or cannot be opened."""
        if self.index is not None:
            return "ready"
        return "loading" if self.problem == OPENING else "failed"

    def ready_index(self) -> Index:
        """Return the index. Raises :class:`ServeError` if it is not open."""
        if self.index is None:
            raise not_ready(f"index {self.name!r}: {self.problem}; try again")
        return self.index

    def open(self, model: Mapping[str, Any]) -> None:
        """Open the index with the arguments in ``model``. If this fails, note the ``problem``."""
        try:
            index = Index.open(self.folder, **model)
            if index.can_encode:
                _ = index.encoder
            _ = index.snapshot().known_words
            self.index, self.problem = index, None
            state = f"{index.manifest.live:,} documents, commit {index.manifest.commit}"
            LOG.info("index %r is open: %s", self.name, state)
        except Exception as error:  # noqa: BLE001 - the library of a model may raise anything
            message = str(error) or type(error).__name__
            if self._logged != message:  # or it would be logged twice a second
                LOG.error("index %r cannot be opened: %s", self.name, message)
            shown = OF_ENGINE  # a message of an engine may name hosts and users
            if isinstance(self.folder, Path):
                shown = message.removeprefix(f"{self.folder}: ")  # the name stands before it
                shown = without_folders(shown.replace(str(self.folder), self.name))
            self.index, self.problem, self._logged = None, shown, message

    def refresh(self, model: Mapping[str, Any]) -> None:
        """Read the newest commit. If the index is not open, or was replaced, open it instead."""
        if self.index is None:
            self.open(model)
            return
        try:
            if self.index.refresh():
                LOG.info("index %r: commit %d", self.name, self.index.manifest.commit)
        except Exception as error:  # noqa: BLE001 - as above
            LOG.warning("index %r: %s", self.name, error)
            self.open(model)


@dataclass
class Catalog:
    """The served indexes.

    - ``model``: arguments of ``Index.open`` for every index.
    - ``threads``: number of threads that search.
    - ``waiting``: number of requests that may wait for a thread, and of writes that may wait for
      an index; further requests are refused.
    - ``writable``: whether requests may change the indexes.
    - ``stops``: whether the server is stopping, so that long functions must end.
    """

    indexes: Mapping[str, ServedIndex]
    model: Mapping[str, Any] = field(default_factory=dict)
    threads: int = THREADS
    waiting: int = 64
    writable: bool = False
    stops: bool = False

    def __post_init__(self) -> None:
        self._running: set[Future[Any]] = set()
        self._pool = ThreadPoolExecutor(self.threads, "vocabtool-search")
        self._opener = ThreadPoolExecutor(1, "vocabtool-open")
        # Each index has one thread that writes.
        self._writers = {name: ThreadPoolExecutor(1, "vocabtool-write") for name in self.indexes}
        self._writes = Counter[str]()  # requests that wait to be written, by index
        self._facts: dict[tuple[str, str], tuple[object, asyncio.Future[Any]]] = {}

    def find(self, name: str) -> ServedIndex:
        """Return the index with this name. Raises :class:`ServeError` if there is none."""
        try:
            return self.indexes[name]
        except KeyError:
            what = f"no index {name!r}; the indexes are {', '.join(self.indexes)}"
            raise ServeError(what, HTTPStatus.NOT_FOUND) from None

    async def open(self, name: str) -> Index:
        """Open the index if necessary. Raises :class:`ServeError` if it cannot be opened."""
        served = self.find(name)
        if served.index is None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._opener, served.refresh, self.model)
        return served.ready_index()

    async def run(self, function: Callable[[], Result]) -> Result:
        """Run a function in one of the threads.

        Raises :class:`ServeError` if too many requests wait. If a request is cancelled while its
        function runs, the function counts until it ends.
        """
        if len(self._running) >= self.threads + self.waiting:
            what = f"{len(self._running)} requests are running or waiting; try again"
            raise ServeError(what, HTTPStatus.TOO_MANY_REQUESTS)
        context, submitted, facts = copy_context(), perf_counter(), REQUEST_FACTS.get()

        def run() -> Result:
            if facts is not None:
                facts.seconds["wait"] = perf_counter() - submitted
            return context.run(function)

        future = self._pool.submit(run)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return await asyncio.wrap_future(future)

    async def write(self, name: str, function: Callable[[], Result]) -> Result:
        """Run a change of an index after earlier ones. :class:`ServeError` if too many wait."""
        if self._writes[name] >= self.waiting:
            what = f"{self._writes[name]} requests are waiting to be written; try again"
            raise ServeError(what, HTTPStatus.TOO_MANY_REQUESTS)
        self._writes[name] += 1
        try:
            return await asyncio.wrap_future(self._writers[name].submit(function))
        finally:
            self._writes[name] -= 1

    async def fact(self, index: str, what: str, version: object, make: Callable[[], Any]) -> Any:
        """Return the result of ``make`` for this version of an index. The result is kept.

        If the result for another version is being computed, wait for that result and return it.
        """
        stored_version, future = self._facts.get((index, what), (None, None))
        if future is None or (future.done() and (stored_version != version or future.exception())):
            future = asyncio.get_running_loop().run_in_executor(None, make)
            self._facts[index, what] = version, future
        return await asyncio.shield(future)  # other requests may wait for it

    def go_on(self, *_: object) -> None:
        """Raise :class:`ServeError` if the server is stopping: the progress of a long function."""
        if self.stops:
            raise not_ready("the server is stopping")

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Keep the indexes open until the ``with`` block ends. Then finish what runs and waits."""
        opening = asyncio.create_task(self.keep_open())
        try:
            yield
        finally:
            opening.cancel()
            with suppress(asyncio.CancelledError):
                await opening
            self.stops = True
            for writer in self._writers.values():
                await asyncio.to_thread(writer.shutdown)
            await asyncio.to_thread(self._opener.shutdown, cancel_futures=True)
            await asyncio.to_thread(self._pool.shutdown)

    async def keep_open(self) -> None:
        """Open all indexes, and pick up new commits until this task is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            for served in self.indexes.values():
                await loop.run_in_executor(self._opener, served.refresh, self.model)
            await asyncio.sleep(REFRESH_SECONDS)


def document_of(index: Index, name: str, id_: str) -> Document:
    """Return the document with this id. Raises :class:`ServeError` if there is none."""
    document = index.get(id_)
    if document is None:
        raise unknown_document(name, id_)
    return document


def unknown_document(name: str, id_: str) -> ServeError:
    what = f"index {name!r}: no document has the id {id_[:MAX_NAME]!r}"
    return ServeError(what, HTTPStatus.NOT_FOUND)


def known_words(index: Index, name: str) -> Words:
    """Return the words of the index's model. Raises :class:`NoVocabulary` if it has none."""
    known = index.snapshot().known_words
    if known is None:
        raise NoVocabulary(
            f"index {name!r} has no vocabulary; index the documents with a model or --vocabulary"
        )
    return known.words
