"""Files of relevance judgements, in the layouts that test collections use.

    query-id<TAB>corpus-id<TAB>score      BEIR: three columns, named in the first line or not
    301 0 FBIS3-10082 1                   TREC: topic, iteration (ignored), document, judgement

The number of columns tells which one it is. The queries themselves are in ``queries.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from vocabtool.errors import InvalidFile, reading
from vocabtool.evaluation.lines import Line, lines

BEIR_COLUMNS: Final = 3
TREC_COLUMNS: Final = 4

Qrels = dict[str, dict[str, int]]  # judgement by document id, by query id


class Judgement(NamedTuple):
    """``relevance``: 0 or less where the document was looked at and is not relevant."""

    query: str
    document: str
    relevance: int


def read_qrels(path: str | Path) -> Qrels:
    """What was judged for each query.

    Raises :class:`InvalidFile` for a line that is no judgement, for one that another contradicts,
    and for a file without any; :class:`NotFound`.
    """
    qrels: Qrels = {}
    with reading(str(path)):
        for line, (query, document, relevance) in _judgements(path):
            judged = qrels.setdefault(query, {})
            if judged.setdefault(document, relevance) != relevance:
                what = f"the document {document!r} is judged twice for the query {query!r}"
                raise InvalidFile(f"{what}, and differently", offset=line.offset)
        if not qrels:
            raise InvalidFile("no judgement in it")
    return qrels


def _judgements(path: str | Path) -> Iterator[tuple[Line, Judgement]]:
    for number, line in enumerate(lines(path)):
        tabbed = line.text.split("\t")  # ids in the layout of BEIR may hold blanks
        columns = tabbed if len(tabbed) == BEIR_COLUMNS else line.text.split()
        if number or not _is_header(columns):
            yield line, _judgement(columns, line.offset)


def _is_header(columns: list[str]) -> bool:
    return len(columns) == BEIR_COLUMNS and _relevance(columns[-1]) is None


def _judgement(columns: list[str], offset: int) -> Judgement:
    relevance = _relevance(columns[-1])
    if len(columns) not in (BEIR_COLUMNS, TREC_COLUMNS) or relevance is None:
        wanted = "query, document, judgement (BEIR) or query, iteration, document, judgement (TREC)"
        raise InvalidFile(f"wanted {wanted}, a whole number last", offset=offset)
    return Judgement(columns[0].strip(), columns[-2].strip(), relevance)


def _relevance(text: str) -> int | None:
    """A whole number; some collections write ``1.0``."""
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() and abs(number) < 1 << 31 else None
