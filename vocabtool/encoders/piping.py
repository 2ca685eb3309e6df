"""``pipe`` for every encoder: texts that come in one by one, encoded in batches by threads.

Written once on top of ``encode``. Batches, threads and their order are in ``parallel.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, cast

from vocabtool.encoders.encoder import Texts, Vectors
from vocabtool.system.parallel import pipe_rows


class _Encodes(Protocol):
    """The part of an encoder that ``pipe`` needs."""

    @property
    def max_batch(self) -> int: ...

    def encode(self, texts: Texts) -> Vectors: ...


class Piping:
    """Gives an encoder its ``pipe``: inherit from it."""

    __slots__ = ()

    def pipe(
        self: _Encodes,
        texts: Iterable[str | bytes],
        *,
        batch_size: int | None = None,
        workers: int = 1,
    ) -> Iterator[Vectors]:
        """The vector of each text, shape (dim,), in order, while texts come in.

        Batches of ``batch_size`` texts (``max_batch`` unless said) are encoded, ``workers`` of
        them at a time in threads. Lazy: no more than ``2 * workers`` batches are taken ahead of
        what was asked for. Raises ``ValueError`` where either number is below one.
        """
        size = self.max_batch if batch_size is None else batch_size
        encode = cast(Callable[[list[str | bytes]], Sequence[Vectors]], self.encode)
        return pipe_rows(encode, texts, batch_size=size, workers=workers)
