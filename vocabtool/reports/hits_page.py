"""HTML pages of searches: the query with marked words, its hits, and hits of a second search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vocabtool.reports import renderers
from vocabtool.reports.hits import (
    extract,
    facts_of,
    fields_outside,
    hits_report,
    remarks,
    restrictions,
    scores_of,
    weight_of_keywords,
    what_was_found,
    why_no_vector,
    why_there,
)
from vocabtool.reports.model import (
    Beside,
    Block,
    Cell,
    Column,
    Entry,
    Facts,
    Link,
    Mark,
    MarkedText,
    Paragraph,
    Report,
    Section,
    Table,
)
from vocabtool.system.messages import plural

if TYPE_CHECKING:
    from vocabtool.reports.renderers import Format
    from vocabtool.search.hits import Explanation, Hit, Hits, LegPlace, QuerySummary, WordSummary

# Returns where a hit of this rank is in another list, and whether it moved.
Moves = Callable[[int, "Hit"], tuple[list[Block], bool]]

KINDS: Final[dict[Mark, str]] = {
    "known": "known to the model",
    "unknown": "unknown to the model",
    "absent": "in no document",
    "code": "a code",
    "stop": "stop word, not searched",
}
NAMES: Final = ("this search", "the other search")
PAGE_TEXT: Final = 600  # characters of a document
PAGE_FIELD: Final = 300  # characters of a field
PAGE_QUERY: Final = 2_000  # characters
PAGE_WORDS: Final = 100  # different words of a query
PAGE_WORD: Final = 40  # characters of a word in a table
PAGE_TITLE: Final = 120  # characters of a heading


def save_hits(
    hits: Hits,
    path: str | Path,
    format: Format | None = None,  # noqa: A002 - as the option is called
    *,
    beside: Hits | None = None,
    names: tuple[str, str] = NAMES,
) -> None:
    """Write the result of a search to a file, atomically.

    ``format``: ``html``, ``json`` or ``text``; by default, the ending of the file decides. After a
    search with ``explain=True``, an HTML page also explains the score of each hit.
    ``beside``: the hits of the same query with other settings. An HTML page shows both lists side
    by side, and marks the hits whose rank differs.
    ``names``: the names of ``hits`` and ``beside`` on the page.

    Raises ``ValueError`` for any other format, if ``beside`` is given without the format ``html``,
    and if ``beside`` has another query. Raises :class:`NotFound` if the file's folder does not
    exist.
    """
    chosen = format or renderers.format_of(path)
    if chosen not in ("html", "json", "text"):
        raise ValueError(f"{path}: hits are written as html, json or text, got {chosen}")
    if beside is not None and chosen != "html":
        raise ValueError(f"{path}: the argument 'beside' needs the format html, got {chosen}")
    is_page = chosen == "html"
    renderers.save(
        hits_page(hits, beside, names) if is_page else hits_report(hits, one_of_many=True),
        path,
        chosen,
    )


def hits_page(
    found: Hits,
    beside: Hits | None = None,
    names: tuple[str, str] = NAMES,
    *,
    title: str = "",
) -> Report:
    """Return the report of a search. The report can be written only as an HTML page.

    ``beside``, ``names``: as in :func:`save_hits`.
    """
    text = found.query.text
    if beside is not None and beside.query.text != text:
        raise ValueError(
            f"the hits in 'beside' must have the query {text!r:.100}, got "
            f"{beside.query.text!r:.100}"
        )
    return Report(
        title=cut(title or (f"Search: {text}" if text else "Documents")),
        subtitle=plural(len(found), "hit", "hits"),
        sections=lambda page: _sections(found, beside, names),
    )


def _sections(found: Hits, beside: Hits | None, names: tuple[str, str]) -> Iterator[Section]:
    if found.query.text:
        codes_first = any(hit.tier for hit in found.hits)
        yield Section("The query", query_blocks(found.query, codes_first=codes_first))
    if beside is None:
        yield Section("Hits", _list(found, "hit", _nothing_beside))
        yield Section("Notes", remarks(found))
        return
    sides = []
    for here, there, own, name, other in (
        (found, beside, "left", names[1], "right"),
        (beside, found, "right", names[0], "left"),
    ):
        ranks = {hit.id: rank for rank, hit in enumerate(there.hits, 1)}
        moves = partial(_move, ranks, f"“{name}”", other)
        blocks = [*_list(here, own, moves), *remarks(here)]
        sides.append(Section(names[own == "right"], blocks))
    yield Section("Hits", [Beside(*sides)])


def query_blocks(
    asked: QuerySummary, *, codes_first: bool, has_legend: bool = True
) -> Iterator[Block]:
    """Yield a query with its words marked by kind, a legend of the marks, and a table of words."""
    spans: list[tuple[int, int, Mark]] = []
    for word in sorted(asked.words, key=lambda word: word.start):
        mark = mark_of(word)
        if mark and word.end <= PAGE_QUERY and (not spans or spans[-1][1] <= word.start):
            spans.append((word.start, word.end, mark))
    yield MarkedText(cut(asked.text, PAGE_QUERY), spans)
    if len(asked.text) > PAGE_QUERY:
        yield _length_note(PAGE_QUERY, len(asked.text))
    if has_legend:
        yield legend()
    if any(word.known is None and word.counts for word in asked.words):
        yield Paragraph("no mark: it is unknown whether the model knows the word", small=True)
    words = {word.surface: word for word in asked.words}
    searched = [word for word in words.values() if word.counts]
    yield _word_table(searched[:PAGE_WORDS], asked.fusion, codes_first=codes_first)
    if len(searched) > PAGE_WORDS:
        yield Paragraph(f"the first {PAGE_WORDS:,} of {len(searched):,} words", small=True)
    yield from map(Paragraph, restrictions(asked))


def legend() -> MarkedText:
    """Return a legend that explains the marks of words, such as unknown words."""
    text, spans = "marks: ", list[tuple[int, int, Mark]]()
    for mark, told in KINDS.items():
        spans.append((len(text), len(text) + len(told), mark))
        text += f"{told}, "
    return MarkedText(text.removesuffix(", "), spans)


def mark_of(word: WordSummary) -> Mark | None:
    """Return the mark of a word; ``None`` if it is unknown whether the model knows the word."""
    if not word.counts:
        return "stop"
    if word.document_frequency == 0 and not word.part_frequency:
        return "absent"
    if word.identifier:
        return "code"
    return None if word.known is None else "known" if word.known else "unknown"


def weighs(word: WordSummary) -> float:
    """Return the idf of a word times its weight; 0 if no document contains the word."""
    return 0.0 if mark_of(word) == "absent" else (word.idf or 0.0) * (word.weight or 0.0)


def hits_for_page(found: Hits) -> dict[str, Any]:
    """Return explained hits for JSON, with the facts that an HTML page shows.

    The result is ``found.to_dict()`` with additional members:

    - The query has ``remarks``: its restrictions, and the weight of keywords.
    - Each word has ``mark`` (such as ``unknown``), ``facts`` (texts) and ``weighs`` (idf x weight).
    - Each explanation has ``why`` (a text), ``title``, ``scores`` (texts), ``extract`` (start and
      end of the text to show, in characters), and ``other_fields`` (fields outside the extract).
    """
    asked, answer = found.query, found.to_dict()
    codes_first = any(hit.tier for hit in found.hits)
    answer["query"]["remarks"] = [*restrictions(asked), *weight_of_keywords(asked)]
    for word, shown in zip(asked.words, answer["query"]["words"], strict=True):
        shown["mark"], shown["weighs"] = mark_of(word), weighs(word)
        shown["facts"] = [*facts_of(word, asked.fusion, codes_first=codes_first)]
    for hit, shown in zip(found.hits, answer["hits"], strict=True):
        if (why := hit.explanation) is not None:
            start, end, _ = extract(hit, PAGE_TEXT)
            shown["explanation"] |= {
                "why": why_there(why, found),
                "title": _title_of(hit),
                "extract": [start, end],
                "scores": [*scores_of(hit)],
                "other_fields": [name for name, _ in fields_outside(hit, start, end)],
            }
    return answer


def _word_table(words: Sequence[WordSummary], fusion: str, *, codes_first: bool) -> Table:
    """Return a table with facts about each word and, if it is explained, its weight."""
    rows: list[list[Cell]] = []
    columns = [Column("word"), Column("what it is")]
    is_explained = any(word.document_frequency is not None for word in words)
    if is_explained:
        columns += (Column("idf", "score"), Column("times", "mean"), Column("weighs", "score"))
    for word in words:
        told = ", ".join(facts_of(word, fusion, codes_first=codes_first))
        rows.append([cut(word.surface, PAGE_WORD), told])
        if is_explained:
            rows[-1] += (word.idf or 0.0, word.weight or 0.0, weighs(word))
    bars = "weighs" if is_explained else None
    return Table(columns, rows, bars=bars, small=["what it is"] if is_explained else ())


def _list(found: Hits, prefix: str, moves: Moves) -> Iterator[Block]:
    """Yield an entry for each hit. ``prefix``: each entry is named ``prefix-RANK``."""
    asked = found.query
    if asked.text:
        settings = f"fusion {asked.fusion}", *weight_of_keywords(asked)
        yield Paragraph("; ".join(settings), small=True)
    yield from what_was_found(found)
    legs = [each for hit in found.hits for each in (hit.score, *_parts(hit.explanation))]
    longest = max(legs, default=0.0)
    for rank, hit in enumerate(found.hits, 1):
        moved, stands_out = moves(rank, hit)
        head = _title_of(hit)
        blocks = chain(moved, _hit_blocks(found, hit, head, longest))
        yield Entry(f"{prefix}-{rank}", f"{rank}. {cut(head)}", [*blocks], stands_out)


def _title_of(hit: Hit) -> str:
    """Return the path of headings above a hit's text, or else its title, or else its id."""
    title, path = (str(hit.fields.get(name) or "").strip() for name in ("title", "path"))
    return (path if path.startswith(title) else f"{title}: {path}") if path else title or hit.id


def _hit_blocks(found: Hits, hit: Hit, head: str, longest: float) -> Iterator[Block]:
    start, end, spans = extract(hit, PAGE_TEXT)
    before, after = "… " * (start > 0), " …" * (end < len(hit.text))
    moved = len(before) - start
    marks: list[tuple[int, int, Mark]] = [(a + moved, b + moved, "match") for a, b in spans]
    yield MarkedText(f"{before}{hit.text[start:end]}{after}", marks)
    if end - start < len(hit.text):
        yield _length_note(end - start, len(hit.text))
    facts = [
        (name, cut(value, PAGE_FIELD))
        for name, value in (("id", hit.id), *fields_outside(hit, start, end))
        if value and (value != head or len(head) > PAGE_TITLE)
    ]
    if facts:
        yield Facts(facts)
    if told := ", ".join(scores_of(hit)):
        yield Paragraph(f"score {told}")
    if (why := hit.explanation) is None:
        return
    columns = (
        *(Column("what gave the score"), Column("in the score", "score")),
        *(Column("of the leg", "score"), Column("rank by it alone", "count")),
    )
    no_word = "not searched" if found.query.fusion == "dense" else "no word found"
    by_vector = why.rank_without_keywords or _rank(why.dense, why_no_vector(found))
    by_words = _rank(why.keyword, no_word)
    rows = [
        ("vectors", why.dense.part or 0.0, why.dense.score, by_vector),
        ("keywords", why.keyword.part or 0.0, why.keyword.score, by_words),
        ("both", hit.score, None, None),
    ]
    bars = "in the score" if longest > 0 else None
    yield Table(columns, rows, bars=bars, longest=longest)
    yield Paragraph(why_there(why, found), small=True)


def _parts(why: Explanation | None) -> tuple[float, float]:
    return (0.0, 0.0) if why is None else (why.dense.part or 0.0, why.keyword.part or 0.0)


def _rank(leg: LegPlace, absent: str) -> Cell:
    """Return the rank of a hit in one search, or ``absent`` if this search did not score it."""
    return leg.rank or (absent if leg.score is None else "past the candidates")


def _nothing_beside(rank: int, hit: Hit) -> tuple[list[Block], bool]:
    return [], False


def _move(
    ranks: Mapping[str, int], name: str, other: str, rank: int, hit: Hit
) -> tuple[list[Block], bool]:
    """Return a block about the rank of a hit in the other list, and whether the rank differs.

    ``ranks``: the rank of each id in the other list. ``name``: the name of the other list.
    ``other``: the prefix of links to the other list. The link to its hit 3 is ``PREFIX-3``.
    """
    there = ranks.get(hit.id)
    if there is None:
        return [Paragraph(f"not among the {plural(len(ranks), 'hit', 'hits')} of {name}")], True
    if there == rank:
        return [Link(f"at the same rank in {name}", f"{other}-{there}")], False
    way = "lower" if there > rank else "higher"
    told = f"moved: rank {there} in {name}, {abs(there - rank)} {way}"
    return [Link(told, f"{other}-{there}")], True


def _length_note(count: int, length: int) -> Paragraph:
    return Paragraph(f"{count:,} of {length:,} characters are shown", small=True)


def cut(text: str, most: int = PAGE_TITLE) -> str:
    """Cut a text, and append an ellipsis if anything was cut. ``most``: characters to keep."""
    return text if len(text) <= most else text[:most] + "…"
