"""Hits as the page of the server shows them: with the facts of words, and why a hit is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from vocabtool.reports.hits import (
    extract,
    facts_of,
    fields_outside,
    restrictions,
    scores_of,
    weight_of_keywords,
    why_there,
)

if TYPE_CHECKING:
    from vocabtool.search.hits import Hit, Hits, WordSummary

# How a page marks a word of a query.
Mark = Literal["known", "unknown", "absent", "code", "stop"]

PAGE_TEXT: Final = 600  # characters of a document


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


def _title_of(hit: Hit) -> str:
    """Return the path of headings above a hit's text, or else its title, or else its id."""
    title, path = (str(hit.fields.get(name) or "").strip() for name in ("title", "path"))
    return (path if path.startswith(title) else f"{title}: {path}") if path else title or hit.id
