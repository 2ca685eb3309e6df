"""Files of queries, in the layouts that test collections use; the content tells which one it is.

    {"_id": "1", "text": "..."}       BEIR: one JSON object a line (``id`` will do, too)
    <top> <num> ... <title> ...       TREC: topics, their title is the query
    1<TAB>what makes wings lift       TREC's deep learning track, MS MARCO
    what makes wings lift             one query a line; its id is the line's number, from 1

What was judged for them is in ``qrels.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from vocabtool.errors import InvalidFile, reading
from vocabtool.evaluation.lines import Line, lines

TOPIC: Final = "<top>"
TAG: Final = re.compile(r"<(/?top|num|title|desc|narr)>", re.IGNORECASE)
# What TREC writes between a tag and what it holds.
LABEL: Final = re.compile(r"\s*(?:number|topic)\s*:", re.IGNORECASE)


class Query(NamedTuple):
    """A question as a person would type it."""

    id: str
    text: str


def read_queries(path: str | Path) -> list[Query]:
    """The queries of a file, in its order.

    Raises :class:`InvalidFile` for a line that is none, an id that stands twice, a file without a
    query; :class:`NotFound`.
    """
    held = list(lines(path))
    with reading(str(path)):
        queries = _unique(_queries(held))
        if not queries:
            raise InvalidFile("no query in it")
        return queries


def _queries(held: Sequence[Line]) -> Iterator[tuple[Query, int]]:
    """Each query and the byte where it begins."""
    first = held[0].text.lstrip() if held else ""
    if first.startswith("{"):
        yield from map(_of_json, held)
    elif first.lower().startswith(TOPIC):
        yield from _of_topics(held)
    elif all(line.text.count("\t") == 1 for line in held):
        for text, offset in held:
            name, _, query = text.partition("\t")
            yield Query(name.strip(), query.strip()), offset
    else:
        for number, line in enumerate(held, 1):
            yield Query(str(number), line.text.strip()), line.offset


def _of_json(line: Line) -> tuple[Query, int]:
    try:
        row = json.loads(line.text)
    except (ValueError, RecursionError) as error:  # RecursionError: brackets without end
        raise InvalidFile(f"not a JSON object: {error}", offset=line.offset) from error
    name = row.get("_id", row.get("id")) if isinstance(row, dict) else None
    if not isinstance(name, str | int) or not isinstance(row.get("text"), str):
        raise InvalidFile('wanted {"_id": ..., "text": "..."}', offset=line.offset)
    return Query(str(name), row["text"]), line.offset


def _of_topics(held: Sequence[Line]) -> Iterator[tuple[Query, int]]:
    parts: dict[str, str] = {}
    inside, began = "", 0
    for line in held:
        before, *tagged = TAG.split(line.text)
        parts[inside] = f"{parts.get(inside, '')} {before}"
        for tag, text in zip(tagged[::2], tagged[1::2], strict=True):
            inside = tag.lower()
            if inside == "top":
                parts, began = {}, line.offset
            elif inside == "/top":
                yield _topic(parts, began), began
            parts[inside] = text
    if inside != "/top":
        raise InvalidFile("a topic without </top>", offset=began)


def _topic(parts: dict[str, str], offset: int) -> Query:
    name, text = (LABEL.sub("", parts.get(part, "")).strip() for part in ("num", "title"))
    if not name or not text:
        raise InvalidFile("a topic without <num> or <title>", offset=offset)
    return Query(name, " ".join(text.split()))


def _unique(found: Iterator[tuple[Query, int]]) -> list[Query]:
    queries: dict[str, Query] = {}
    for query, offset in found:
        if query.id in queries:
            raise InvalidFile(f"the query {query.id!r} stands twice", offset=offset)
        queries[query.id] = query
    return list(queries.values())
