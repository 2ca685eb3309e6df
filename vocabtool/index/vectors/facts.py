"""How codes were built and how they are searched, as the manifest keeps it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """Numbers and strings only.

    ``lists``: of the coarse layer (IVF), 1 for small indexes; ``probes``: how many of them a search
    visits. ``candidates``: how many rows a search refines exactly, at least. ``recall_asked``,
    ``recall``: of the ten nearest, asked and measured, over ``queries`` vectors that were ``given``
    or else made (``recall.py``). ``sample``: how many vectors the codes were trained on.
    ``coded``: how many rows there were when they were built; ``seconds``: how long that took.
    """

    dim: int
    lists: int
    probes: int
    candidates: int
    recall_asked: float
    recall: float
    queries: int
    given: bool
    sample: int
    coded: int
    seed: int
    seconds: float
