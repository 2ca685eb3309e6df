"""Commit the changes that requests ask for, with one thread for each index.

Requests that arrive during a commit are committed together by the next commit. Each request gets
its own answer. If a commit fails, each of its requests is committed alone, so that only wrong
requests are refused.

A request may have an idempotency key. The answer to such a request is stored in the same commit as
its changes. If the client sends the request again, nothing changes, and the client gets the same
answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, NamedTuple

import orjson

from vocabtool.errors import VocabtoolError
from vocabtool.index.folder import read_manifest
from vocabtool.index.index import Index
from vocabtool.index.store_index import StoreIndex
from vocabtool.index.writer import Writer
from vocabtool.serve.catalog import ServedIndex
from vocabtool.serve.problems import (
    LOG,
    Busy,
    NotReady,
    ServeError,
    told_outside,
    without_folders,
)

MAX_QUEUED: Final = 64  # requests that wait for an index's thread; further ones are refused


class ReusedKey(ServeError):
    """The idempotency key was already used for a different request."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY


class CannotWrite(ServeError):
    """Writing failed although the request is valid, for example because the disk is full."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


class RequestKey(NamedTuple):
    """A hash of what a request asks for, and the idempotency key of the request, if any."""

    digest: bytes
    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Change:
    """What a request wants to change in an index.

    - ``make``: changes the index, and returns the answer without the number of the commit. If it
      raises :class:`ServeError`, nothing has been changed.
    - ``names``: names of the fields for which the change has values.
    - ``answer``: gets the answer after the commit.
    """

    make: Callable[[Writer], dict[str, int]]
    asked: RequestKey
    names: frozenset[str] = frozenset()
    answer: Future[dict[str, int]] = field(default_factory=Future)

    def apply(self, writer: Writer) -> dict[str, int] | ServeError:
        """Make the change. Return the answer or the error.

        If an answer is stored for the idempotency key, return that answer and change nothing.
        """
        try:
            digest, key = self.asked
            if key is None:
                return self.make(writer)
            before = writer.answer_for(key)
            if before is None:
                made = {**self.make(writer), "commit": writer.manifest.commit + 1}
                writer.remember(key, digest, orjson.dumps(made))
                return made
            if before[0] != digest:
                told = f"the idempotency key {key!r} belongs to another request"
                raise ReusedKey(f"{told}; send this request with a new key")
            answer: dict[str, int] = orjson.loads(before[1])
            return answer
        except ServeError as error:
            return error


class Commits:
    """Commits the changes of one index, in a separate thread."""

    def __init__(self, served: ServedIndex) -> None:
        self._served = served
        self._waiting: deque[Change] = deque()
        self._thread = ThreadPoolExecutor(1, "vocabtool-write")

    async def make(self, change: Change) -> dict[str, int]:
        """Make a change. Return the answer after the commit.

        Raises :class:`Busy` if too many requests wait, and :class:`NotReady` if the server stops.
        """
        if len(self._waiting) >= MAX_QUEUED:
            raise Busy(f"{len(self._waiting)} requests are waiting to be written; try again")
        self._waiting.append(change)
        try:
            self._thread.submit(self._take)
        except RuntimeError:
            if change.answer.cancel():  # unless it is being committed
                raise NotReady("the server is stopping; try again") from None
        return await asyncio.wrap_future(change.answer)

    def close(self) -> None:
        """Commit all waiting changes, and stop the thread."""
        self._thread.shutdown()

    def _take(self) -> None:
        """Commit all waiting changes."""
        taken = [self._waiting.popleft() for _ in range(len(self._waiting))]
        changes = [each for each in taken if each.answer.set_running_or_notify_cancel()]
        try:
            index = self._served.ready_index()
            index.refresh()  # raises if it was replaced
        except Exception as error:  # noqa: BLE001 - the requests get it
            if not isinstance(error, NotReady):
                error = NotReady(f"{told_outside(error)}; try again")
            for each in changes:
                each.answer.set_exception(error)
            return
        # The commit with a new field determines its kind: such a request must not do so for others.
        known = {name for name, kind in index.manifest.fields.items() if kind != "null"}
        group: list[Change] = []
        for each in changes:
            if each.names <= known:
                group.append(each)
                continue
            _commit(index, group)
            _commit(index, [each])
            group = []
        _commit(index, group)


def _commit(index: Index, changes: Sequence[Change]) -> None:
    if not changes:
        return
    commit: int | None = None
    try:
        with index.writer() as writer:
            before = writer.manifest.commit
            outcomes = [each.apply(writer) for each in changes]
            try:
                writer.commit()
            except Exception:  # raised again; the request must know whether it was committed
                if _newest_commit(index, writer) > before:
                    commit = before + 1
                raise
            commit = writer.manifest.commit
    except Exception as error:  # noqa: BLE001 - the request gets it
        if commit is None:
            _refuse(index, changes, error)
            return
        LOG.warning("%s: committed; then: %s", index.name, error)
    for each, outcome in zip(changes, outcomes, strict=True):
        if isinstance(outcome, ServeError):
            each.answer.set_exception(outcome)
        else:
            each.answer.set_result({"commit": commit, **outcome})


def _newest_commit(index: Index, writer: Writer) -> int:
    """Return the number of the newest commit; in an engine, of the writer's last commit."""
    # Other clients may have committed to an engine since.
    is_shared = isinstance(index, StoreIndex)
    return (writer.manifest if is_shared else read_manifest(index.path)).commit


def _refuse(index: Index, changes: Sequence[Change], error: Exception) -> None:
    """Answer a single change with ``error``. Commit several changes one by one instead."""
    if len(changes) > 1:
        for each in changes:
            _commit(index, [each])
        return
    # Our own errors say by their class whose fault it is.
    if isinstance(error, OSError) and not isinstance(error, VocabtoolError):
        LOG.error("%s: nothing was written: %s", index.name, error)
        error = CannotWrite(f"nothing was written: {without_folders(str(error))}")
    changes[0].answer.set_exception(error)
