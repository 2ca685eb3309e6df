"""Functions that do to an index what the commands of these names do: ``vocabtool.search(...)``."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from vocabtool.choices import OnExisting
from vocabtool.documents.options import ReadOptions
from vocabtool.documents.reading import Document, Sources
from vocabtool.documents.vectors import Given
from vocabtool.encoders.encoder import EncoderOptions
from vocabtool.encoders.open_encoder import Model
from vocabtool.errors import NotFound
from vocabtool.index.folder import IndexOptions, is_address, is_index
from vocabtool.index.index import Index
from vocabtool.system.arguments import takes
from vocabtool.system.messages import Progress

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Indexing(IndexOptions, EncoderOptions):
    """The arguments of :func:`index`."""

    folder: str | Path
    model: Model | None = None
    existing: OnExisting = field(default="error", kw_only=True)
    vectors: Given | None = field(default=None, kw_only=True)
    read: ReadOptions | None = field(default=None, kw_only=True)
    progress: Progress | None = field(default=None, kw_only=True)
    notify: Callable[[str], object] | None = field(default=None, kw_only=True)


@takes(Indexing)
def index(sources: Sources, request: Indexing) -> Index:
    """Create an index of documents, or add them to an index, as the command ``index`` does.

    - ``sources``: as in :func:`vocabtool.documents.batches`. A list of strings names files, so pass
      texts as ``iter(texts)``.
    - ``folder``: the folder or the address of the index. If it is an index, documents are added,
      and the options of a new index are not used.
    - ``model``: the model that makes the vectors, as in :func:`vocabtool.open_encoder`.
    - ``existing``: what to do with a document whose id is already in the index.
    - ``vectors``: the documents' vectors, if they are your own, as in :meth:`Index.load`.
    - ``read``: how documents are read. ``notify``: is called with each note for the user.
    - The other arguments are those of :meth:`Index.create`.

    After an interruption, the same call resumes. The weight of keyword search is not estimated: see
    :func:`vocabtool.calibrate`. Raises the errors of :meth:`Index.create` and :meth:`Index.load`.
    """
    opened, folder = None, request.folder
    if is_address(folder) or is_index(Path(folder)):
        try:
            opened = Index.open(folder, request.model, **request.given_options())
        except NotFound:
            if not is_address(folder):
                raise
    if opened is None:
        kinds = (*fields(IndexOptions), *fields(EncoderOptions))
        opened = Index.create_for(
            folder,
            sources,
            request.model,
            read=request.read or ReadOptions(),
            vectors=request.vectors,
            notify=request.notify,
            **{kind.name: getattr(request, kind.name) for kind in kinds},
        )
    report = opened.load(
        sources,
        request.read,
        on_existing=request.existing,
        vectors=request.vectors,
        progress=request.progress,
    )
    if request.notify is not None:
        for note in report.notes:
            request.notify(note)
    return opened


def _of_path(
    method: Callable[Concatenate[Index, P], R],
) -> Callable[Concatenate[Index | str | Path, P], R]:
    """Return a function that calls a method of an index, or of the index at a path or address."""

    @wraps(method)
    def call(index: Index | str | Path, /, *args: P.args, **kwargs: P.kwargs) -> R:
        opened = index if isinstance(index, Index) else Index.open(index)
        return method(opened, *args, **kwargs)

    of_method = signature(method)
    first, *others = of_method.parameters.values()
    first = first.replace(name="index", annotation="Index | str | Path")
    shown = of_method.replace(parameters=[first, *others])  # by help()
    call.__signature__ = shown  # type: ignore[attr-defined]
    return call


compact = _of_path(Index.compact)
copy = _of_path(Index.copy)
delete = _of_path(Index.delete)
export = _of_path(Index.export)
get = _of_path(Index.get)
search = _of_path(Index.search)
similar = _of_path(Index.similar)
stats = _of_path(Index.stats)
update = _of_path(Index.update)
verify = _of_path(Index.verify)


def list(index: Index | str | Path, where: str | None = None) -> builtins.list[Document]:  # noqa: A001 - as the command
    """Return the documents of an index that satisfy ``where``, in the order of :meth:`Index.ids`.

    For an index larger than memory, use :meth:`Index.documents`.
    """
    opened = index if isinstance(index, Index) else Index.open(index)
    return [*opened.documents(where)]
