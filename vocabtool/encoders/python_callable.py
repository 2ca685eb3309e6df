"""Any Python callable as an encoder: texts in, an array with a row for each out.

``python:package.module:attribute`` names one. Importing a module runs it: who names one trusts it.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, Final

import numpy as np

from vocabtool.encoders.encoder import (
    REPLACES_BYTES,
    Encoder,
    EncoderOptions,
    Texts,
    Vectors,
    check_vectors,
    decode_texts,
)
from vocabtool.errors import NotFound, OperatorFailed, VocabtoolError
from vocabtool.tokenization.words import Words

MAX_BATCH: Final = 256
PROBE: Final = "How long is a vector?"
WANTED: Final = "wanted python:package.module:attribute"
SOURCE_ONLY: Final = (
    "the fingerprint covers the source code of {name}, not what it calls or reads: give "
    "fingerprint= (or the callable an attribute of that name) to tell versions apart"
)


class PythonEncoder(Encoder):
    """Calls ``fn(texts)`` for an array of shape (n, dim), any kind of numbers.

    It may be called by several threads at once, so ``fn`` must bear that. It can be pickled where
    ``fn`` can. Texts come as ``str``; what is no UTF-8 in them as U+FFFD.
    """

    kind = "python"

    def __init__(
        self,
        fn: Callable[[list[str]], Any],
        dim: int | None = None,
        fingerprint: str | None = None,
        max_batch: int = MAX_BATCH,
        words: Words | None = None,
        made_by: Callable[[], Any] | None = None,
    ) -> None:
        """``dim``: without, ``fn`` is asked for one vector. ``max_batch``: texts for it at once.

        ``fingerprint``: any text that is another when the vectors are. Without, it is made of
        ``fn``'s attribute ``fingerprint``, or of its source code. ``made_by``: what made ``fn``,
        where its source code tells more.
        Raises :class:`VocabtoolError` where nothing tells ``fn`` apart from another, and where it
        gives no vectors or fails (:class:`OperatorFailed`); ``ValueError`` for wrong arguments.
        """
        if not callable(fn):
            raise ValueError(f"wanted something to call, got {fn!r}")
        if max_batch < 1 or (dim is not None and dim < 1):
            raise ValueError(f"wanted max_batch and dim of at least 1, got {max_batch}, {dim}")
        self._fn = fn
        self._name = _name_of(fn)
        self.max_batch = max_batch
        self.words = words
        source = made_by or fn
        given = fingerprint if fingerprint is not None else getattr(fn, "fingerprint", None)
        self._notes = (REPLACES_BYTES,)
        if not given:
            self._notes += (SOURCE_ONLY.format(name=_name_of(source)),)
        version = str(given) if given else _source_fingerprint(source)
        self.fingerprint = hashlib.sha256(f"vocabtool python 1\n{version}".encode()).hexdigest()
        self.options = EncoderOptions(
            kind=self.kind, fingerprint=fingerprint, max_batch=self.max_batch
        )
        self.dim = dim or self._probe_dim()

    def encode(self, texts: Texts) -> Vectors:
        """The vector of each text: float32, shape (n, dim).

        What the callable raises comes through. Raises :class:`VocabtoolError` for a result that is
        no matrix of finite numbers with a row for each text.
        """
        decoded = decode_texts(texts)
        parts = [
            self._call(decoded[start : start + self.max_batch], self.dim, start)
            for start in range(0, len(decoded), self.max_batch)
        ]
        return np.concatenate([np.zeros((0, self.dim), np.float32), *parts])

    def _probe_dim(self) -> int:
        try:
            return int(self._call([PROBE], None, 0).shape[1])
        except (VocabtoolError, OSError, MemoryError):
            raise
        except Exception as error:  # a callable may raise anything: its user wants to know what
            what = f"called with one text it raised {type(error).__name__}: {error}"
            raise OperatorFailed(self._name, what) from error

    def _call(self, texts: list[str], dim: int | None, start: int) -> Vectors:
        source = f"{self._name}, called with texts {start:,} to {start + len(texts) - 1:,}"
        return check_vectors(self._fn(texts), len(texts), dim, source)


def import_named(name: str) -> tuple[Any, Callable[[], Any] | None]:
    """Import ``package.module:attribute``, from the current folder, too.

    A class, or a function that can only be called without arguments, is called. Returns the value
    and what made it, if anything did. The current folder stays at the end of ``sys.path``, where
    what is imported later is looked for.
    Raises :class:`NotFound` where nothing is called so; what the module itself raises.
    """
    module_name, colon, path = name.partition(":")
    if not (module_name and colon and path):
        raise VocabtoolError(f"python:{name}: {WANTED}")
    module = _import(module_name)
    try:
        value: Any = reduce(getattr, path.split("."), module)
    except AttributeError as error:
        public = ", ".join(sorted(each for each in vars(module) if not each.startswith("_")))
        raise NotFound(
            f"python:{module_name}:{path}: no such attribute; the module has {public}"
        ) from error
    takes_nothing = inspect.isfunction(value) and not inspect.signature(value).parameters
    if inspect.isclass(value) or takes_nothing:
        return value(), value
    return value, None


def _import(module: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # something that the module itself wants
        raise NotFound(f"python:{module}: no module {error.name!r}; {WANTED}") from error


def _source_fingerprint(source: Callable[..., Any]) -> str:
    """Hexadecimal sha256 of module, qualified name and source code of a function or a class.

    Raises :class:`VocabtoolError` where these do not decide what it does: for what is made of other
    values (closures, methods, objects), and for what has no name or no source.
    """
    plain = inspect.isclass(source) or (
        inspect.isfunction(source) and source.__closure__ is None and "<" not in source.__qualname__
    )
    try:
        if not plain:
            raise TypeError("it has no name of its own, or holds values that no source shows")
        code = inspect.getsource(source)
    except (OSError, TypeError) as error:
        raise VocabtoolError(
            f"nothing tells {_name_of(source)} apart from another callable ({error}): "
            "give --fingerprint (fingerprint=), a text that changes when its vectors do"
        ) from error
    named = f"{source.__module__}\n{source.__qualname__}\n{code}"
    return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()


def _name_of(fn: Callable[..., Any]) -> str:
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{named.__module__}.{named.__qualname__}"
