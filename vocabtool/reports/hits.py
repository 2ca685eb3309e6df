"""Reports of ``search`` and ``similar``, and hits as the page of the server shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from os.path import commonprefix
from typing import Any, Final, Literal

from vocabtool.documents.options import BETWEEN
from vocabtool.keywords.tokens import Span
from vocabtool.reports.report import (
    NOTEBOOK_ROWS,
    Column,
    Report,
    Section,
    Table,
    facts,
    notes_of,
    render_fragment,
)
from vocabtool.search.hits import (
    DEEP,
    NO_VECTOR,
    ZERO_VECTOR,
    Explanation,
    Hit,
    Hits,
    LegPlace,
    QuerySummary,
    WordSummary,
)
from vocabtool.search.query import is_word
from vocabtool.search.store import ValueCount
from vocabtool.system.messages import plural
from vocabtool.vocabulary import safe

# How the page of the server marks a word of a query.
Mark = Literal["known", "unknown", "absent", "code", "stop"]

PAGE_TEXT: Final = 320  # characters of a document on this page: three lines
WIDTH: Final = 160  # characters shown of a text
LEAD: Final = 40  # of these, characters before the first word of the query
ROUNDING: Final = 1e-9


def hits_report(hits: Hits, *, one_of_many: bool = False) -> Report:
    """Return the report of a query's hits. ``one_of_many``: whether to show the query, too."""
    query = hits.query
    return Report(
        title=f"Search: {query.text[:WIDTH]}" if query.text else "Documents",
        subtitle=plural(len(hits.hits), "hit", "hits"),
        sections=partial(_sections, hits, one_of_many),
        data=hits.to_json,
    )


def _sections(hits: Hits, one_of_many: bool) -> Iterator[Section]:
    query = hits.query
    has_code = any(hit.tier for hit in hits.hits)
    is_explained = bool(hits.hits) and hits.hits[0].explanation is not None
    answer: list[str] = []
    if is_explained or (query.text and not hits.hits):
        words = [
            (word.surface, ", ".join(facts_of(word, query.fusion, codes_first=has_code)))
            for word in query.words
        ]
        remarks = [f"  {line}" for line in _remarks(query)]
        yield Section("The query", facts(words), [f"query: {query.text}"], remarks)
    elif one_of_many:
        answer.append(f"query: {query.text}")
    for suggestion in hits.suggestions:
        answer.append(f"{suggestion.word}: did you mean {', '.join(suggestion.spellings)}?")
    if not hits.hits:
        pages = f"nothing on this page of {plural(hits.total, 'hit', 'hits')}"
        answer.append(pages if hits.total else "nothing found")
    for number, hit in enumerate(hits.hits, 1):
        scores = ", ".join(scores_of(hit, query.weight))
        answer.append(f"{number:>2}. {hit.id}" + (f"  ({scores})" if scores else ""))
        start, end, spans = extract(hit, WIDTH)
        # Words of the query are in brackets.
        shown, at = "..." if start else "", start
        for first, last in spans:
            shown += f"{hit.text[at:first]}[{hit.text[first:last]}]"
            at = last
        shown += hit.text[at:end] + ("..." if end < len(hit.text) else "")
        lines = [" ".join(shown.split())]
        for field, value in fields_outside(hit, start, end):
            lines.append(f"{field}: {safe(value)[:WIDTH]}")
        if hit.explanation is not None:
            lines.append(why_there(hit.explanation, hits))
        answer += [f"    {line}" for line in lines]
    for name, counted in hits.facets.items():
        values = value_counts(counted, "{} ({:,})", WIDTH) or "no document with a value"
        answer.append(f"facet {name}: {values}")
    answer += notes_of(hits.notes)
    yield Section("Hits", text=answer)


def _remarks(query: QuerySummary) -> Iterator[str]:
    """Yield how the query restricts the documents, and the weight of keywords with its formula."""
    for name, restrictions in (
        ("left out", query.excluded),
        ("only with", query.fields),
        ("one of", query.alternatives),
    ):
        if restrictions:
            yield f"{name}: {', '.join(restrictions)}"
    weight, a, m = query.weight, query.a, query.m
    if weight is None:
        return
    shown = f"weight of keywords {weight:.2f}"
    if a is not None and abs(weight - a - (1 - a) * (m or 0)) > ROUNDING:
        shown += f": {'vectors' if weight else 'keywords'} found nothing"
    elif a is not None and m is not None and any(word.known is not None for word in query.words):
        share = f"{m:.2f} (m, the idf share of unknown words that documents contain)"
        shown += f" = {a:.2f} + {1 - a:.2f} x {share}"
    yield shown


def hits_html(hits: Hits) -> str:
    """Return the best hits as a table for notebooks."""
    rows = []
    for rank, hit in enumerate(hits.hits[:NOTEBOOK_ROWS], 1):
        text = hit.text if len(hit.text) <= WIDTH else f"{hit.text[:WIDTH]}…"
        rows.append((str(rank), hit.id[:WIDTH], hit.score, text))
    columns = (Column("rank"), Column("id"), Column("score", "score"), Column("text"))
    notes = notes_of(hits.notes)
    if len(hits) > len(rows):
        notes.append(f"… and {len(hits) - len(rows):,} more")
    title = plural(len(hits), "hit", "hits")
    if hits.query.text:
        title += f" for {hits.query.text[:WIDTH]}"
    return render_fragment(title, [Section(table=Table(columns, rows), notes=notes)])


def facts_of(word: WordSummary, fusion: str, *, codes_first: bool) -> Iterator[str]:
    """Yield facts about a word of the query, such as whether the model knows the word."""
    if not word.counts:
        yield "stop word, not searched"
        return
    if word.known is None:
        yield "unknown whether the model knows it"
    else:
        yield "known" if word.known else "unknown to the model"
    if word.identifier:
        yield "a code: documents with it come first" if codes_first else "a code"
    if word.pieces is not None:
        yield plural(word.pieces, "piece", "pieces")
    frequency = word.document_frequency
    if frequency is not None:
        documents = plural(frequency, "document", "documents") if frequency else "no document"
        if word.part_frequency in (None, frequency):
            yield f"in {documents}"
        else:
            yield f"complete in {documents}, its rarest part in {word.part_frequency:,}"
    if word.weight is not None and word.weight != 1:
        yield f"counted {word.weight:.4g} times"
    says_nothing = not word.identifier and not is_word(word.surface)
    if fusion == "coverage" and word.weight == 1 and word.known is False and says_nothing:
        yield "counted like a known word, because it is a number or one character"


def fields_outside(hit: Hit, start: int, end: int) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each field whose text is outside ``hit.text[start:end]``."""
    for name, value in hit.fields.items():
        shown = str(value)
        # A text of its own in the hit, between separators; so ``at`` also counts in ``hit.text``.
        at = f"{BETWEEN}{hit.text}{BETWEEN}".find(f"{BETWEEN}{shown}{BETWEEN}")
        if at < 0 or at >= end or at + len(shown) <= start:
            yield name, shown


def scores_of(hit: Hit, weight: float | None) -> Iterator[str]:
    """Yield the scores of a hit, and how many more hits are in its group.

    Without a query, a hit has no scores. ``weight``: of keywords. If it is 0, the score is only the
    similarity, scaled to 1 for the best hit, which may be a poor match.
    """
    if weight != 0 and (hit.similarity is not None or hit.bm25 is not None or hit.score):
        yield f"{hit.score:.3f}"
    if hit.tier:
        yield "has the code"
    if hit.similarity is not None:
        yield f"similarity {hit.similarity:.3f}"
    if hit.bm25 is not None:
        yield f"BM25 {hit.bm25:.3f}"
    if hit.rerank is not None:
        yield f"rerank {hit.rerank:.3f}"
    if hit.further:
        yield f"{hit.further:,} more in its group"


def extract(hit: Hit, width: int) -> tuple[int, int, list[Span]]:
    """Return start, end and highlights of the ``width`` characters with the highest scores."""
    why = hit.explanation
    if why is None:
        return 0, min(len(hit.text), width), []
    start = _start_of_extract(hit.text, why, width) if len(hit.text) > width else 0
    end = min(len(hit.text), start + width)
    return start, end, [span for span in why.highlights if start <= span[0] and span[1] <= end]


def _start_of_extract(text: str, why: Explanation, width: int) -> int:
    """Return where the part with the highest sum of scores begins. Each word counts once."""
    highlights = [text[start:end].casefold() for start, end in why.highlights]
    words = [(word.surface.casefold(), word.score) for word in why.words]
    # The word of the query that each highlight is a form of, with its score: the word that begins
    # with the most of the same letters, or else a word that contains the highlight.
    word_of: dict[str, tuple[str, float]] = {}
    for form in dict.fromkeys(highlights) if words else ():
        near = max(words, key=lambda word: (_common_length(word[0], form), -len(word[0])))
        if not _common_length(near[0], form):
            near = next((word for word in words if form in word[0]), (form, 0.0))
        word_of[form] = near
    best_start, best_score, end = 0, -1.0, 0
    for number, (first, _) in enumerate(why.highlights):
        start = max(0, first - LEAD)
        while end < len(highlights) and why.highlights[end][1] <= start + width:
            end += 1
        shown = {word_of.get(form, (form, 1.0)) for form in highlights[number:end]}
        score = sum(score for _, score in shown)
        if score > best_score + ROUNDING:
            best_start, best_score = start, score
    return best_start


def _common_length(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    return len(commonprefix((one, other)))  # noqa: RUF071 - of characters


def why_there(why: Explanation, hits: Hits) -> str:
    """Return a line that explains a hit's rank: its rank by vectors, by keywords and so on."""
    if why.dense.rank is not None or why.dense.score is not None:
        reasons = [f"vectors {_rank(why.dense)}"]
    elif hits.query.fusion == "keyword":
        reasons = ["vectors not searched"]
    elif NO_VECTOR in hits.notes or ZERO_VECTOR in hits.notes:
        reasons = ["the query has no vector"]
    else:
        reasons = ["the document has no vector"]
    if hits.query.fusion == "dense":
        reasons.append("keywords not searched")
    elif why.words:
        reasons.append(f"keywords {_rank(why.keyword)}")
        words = [
            f"{'' if word.whole else 'parts of '}{word.surface} {word.score:.2f}"
            for word in why.words
        ]
        reasons.append(f"by {', '.join(words)}")
    elif why.keyword.rank is not None:
        reasons.append(f"keywords {_rank(why.keyword)}")
    else:
        reasons.append("no keyword match")
    without = why.rank_without_keywords
    if without is not None:
        reasons.append(f"without keywords rank {without:,}")
    elif why.dense.score is not None:
        reasons.append(f"without keywords below rank {DEEP:,}")
    if why.fused_rank is not None:
        reasons.append(f"rank {why.fused_rank:,} by the fusion alone")
    return "; ".join(reasons)


def _rank(leg: LegPlace) -> str:
    rank = "beyond the candidates" if leg.rank is None else f"rank {leg.rank:,}"
    return rank if leg.score is None else f"{rank} ({leg.score:.3f})"


def value_counts(counted: Iterable[ValueCount], form: str = "{} {:,}", width: int = LEAD) -> str:
    """Return values and counts, such as ``en 12, de 3``. ``width``: of a value, in characters."""
    shown = []
    for entry in counted:
        value = str(entry.value).lower() if isinstance(entry.value, bool) else str(entry.value)
        shown.append(form.format(safe(value)[:width], entry.count))
    return ", ".join(shown)


# For the page of the server.


def hits_for_page(hits: Hits) -> dict[str, Any]:
    """Return explained hits for JSON, with the facts that an HTML page shows.

    To ``hits.to_json()`` it adds: to the query ``remarks``, its restrictions and the weight of
    keywords; to each word ``mark`` (such as ``unknown``), ``facts`` and ``weighs`` (idf x weight);
    to each explanation ``why``, ``title``, ``scores``, ``extract`` (start and end of the text to
    show, in characters) and ``other_fields``, those outside the extract.
    """
    query, page = hits.query, hits.to_json()
    codes_first = any(hit.tier for hit in hits.hits)
    page["query"]["remarks"] = [*_remarks(query)]
    for word, shown in zip(query.words, page["query"]["words"], strict=True):
        mark = shown["mark"] = mark_of(word)
        shown["weighs"] = 0.0 if mark == "absent" else (word.idf or 0.0) * (word.weight or 0.0)
        shown["facts"] = [*facts_of(word, query.fusion, codes_first=codes_first)]
    for hit, shown in zip(hits.hits, page["hits"], strict=True):
        if hit.explanation is None:
            continue
        start, end, _ = extract(hit, PAGE_TEXT)
        title, path = (str(hit.fields.get(name) or "").strip() for name in ("title", "path"))
        if path:  # of headings above the text
            title = path if path.startswith(title) else f"{title}: {path}"
        shown["explanation"] |= {
            "why": why_there(hit.explanation, hits),
            "title": title or hit.id,
            "extract": [start, end],
            "scores": [*scores_of(hit, query.weight)],
            "other_fields": [name for name, _ in fields_outside(hit, start, end)],
        }
    return page


def mark_of(word: WordSummary) -> Mark | None:
    """Return the mark of a word; ``None`` if it is unknown whether the model knows the word."""
    if not word.counts:
        return "stop"
    if word.document_frequency == 0 and not word.part_frequency:
        return "absent"
    if word.identifier:
        return "code"
    if word.known is None:
        return None
    return "known" if word.known else "unknown"
