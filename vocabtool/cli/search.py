"""The command that searches an index: ``search``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from vocabtool.choices import FUSIONS, PHRASES
from vocabtool.cli.index import open_index
from vocabtool.cli.options import DIR, INDEX_MODEL, format_option, gather
from vocabtool.cli.output import (
    check_files,
    refuse_nothing,
    show_report,
    standard_output,
    usage_errors,
)
from vocabtool.system.messages import tell

if TYPE_CHECKING:
    from vocabtool.index.index import Index
    from vocabtool.search.hits import Hits

PURE: Final = ("dense", "keyword")  # fusions that use one leg only
STDIN: Final = "-"
BATCH_QUERIES: Final = 256  # queries of standard input that are encoded at once

WHERE: Final = (
    "Condition on fields, such as: year >= 2020 and lang = 'en'. `tags contains 'x'`: the list "
    "tags has the element 'x', or the text tags has the substring 'x'."
)
ARRANGEMENT = gather(
    "arrangement",
    click.option(
        "--sort",
        metavar="FIELD[:desc]",
        multiple=True,
        help="Order the candidates by this kept field, not by score. May be repeated: the next "
        "field orders documents with equal values. Documents without the field come last.",
    ),
    click.option(
        "--facets",
        metavar="FIELD,...",
        default="",
        help="Count the values of these kept fields in the documents that satisfy --where and "
        "contain a word of QUERY.",
    ),
    click.option(
        "--offset",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Number of hits before the first one that is shown. --depth limits how many there "
        "are.",
    ),
    click.option(
        "--group-by",
        metavar="FIELD",
        help="Show only the best document with each value of this kept field, and count the "
        "others. -k is then the number of values.",
    ),
)
K = click.option(
    "-k", type=click.IntRange(1), default=10, show_default=True, help="Number of hits."
)
CONDITION = click.option("--where", metavar="CONDITION", help=WHERE)
EXPLAIN = click.option(
    "--explain", is_flag=True, help="Explain each hit and the weight of each word."
)
RERANK = click.option(
    "--rerank",
    metavar="MODEL",
    help="Cross-encoder that ranks the first 50 hits again: a folder or name of "
    "sentence-transformers, or python:MODULE:NAME.",
)
PAGE = click.option(
    "--html",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Also write an HTML page. Sets --explain.",
)
SETTINGS = gather(
    "settings",
    click.option(
        "--fusion",
        type=click.Choice(FUSIONS),
        default="coverage",
        show_default=True,
        help="How vector and keyword hits are combined.",
    ),
    click.option(
        "-a",
        "--weight",
        "a",
        type=click.FloatRange(0, 1),
        help="Weight of keyword search; that of vector search is 1 - A. [default: as calibrated, "
        "else 0.5, or 0.4 for models of subword pieces]",
    ),
    click.option(
        "--depth",
        type=click.IntRange(1, 1_000_000),
        default=None,
        help="Number of candidates from vector search, and from keyword search. [default: 100, or "
        "all documents if there are at most 2,000]",
    ),
    click.option(
        "--guarantee/--no-guarantee",
        default=True,
        show_default=True,
        help="Rank documents that contain an identifier of the query above all others.",
    ),
    click.option(
        "--phrases",
        type=click.Choice(PHRASES),
        default="required",
        show_default=True,
        help="Whether a document must contain the quoted phrases of the query.",
    ),
    click.option(
        "--literal",
        is_flag=True,
        help="Take -, OR, FIELD: and brackets in QUERY as text, not as operators.",
    ),
    RERANK,
)


@click.command("search", context_settings={"allow_extra_args": True})
@DIR
@click.argument("query", metavar="[QUERY]", required=False)
@INDEX_MODEL
@K
@CONDITION
@click.option(
    "--vector",
    metavar="FILE[#N]",
    help="The vector of QUERY, if your own model makes the vectors: a .npy, .npz or .parquet file "
    "with one row. FILE#N: row N of a file with several rows, counted from 0.",
)
@EXPLAIN
@ARRANGEMENT
@SETTINGS
@PAGE
@format_option("json: one object for each query.")
def search_command(
    folder: str,
    query: str | None,
    model: dict[str, Any],
    k: int,
    where: str | None,
    vector: str | None,
    explain: bool,
    arrangement: dict[str, Any],
    settings: dict[str, Any],
    html: str | None,
    report_format: Literal["text", "json"],
) -> None:
    """Find the documents of the index in DIR that answer QUERY best.

    Keyword search gives more weight to words that the model does not know. In QUERY, "two words" is
    a phrase, -word excludes documents with the word, FIELD:word requires the word in this field,
    and a OR b requires one of two words. If QUERY is -, each line of standard input is a query.
    Without QUERY, but with --where, --sort or --facets, list the documents that satisfy --where.
    """
    from vocabtool.reports.hits import hits_report
    from vocabtool.reports.render import save

    more = click.get_current_context().args
    if more:
        whole = " ".join((query or "", *more))
        raise click.UsageError(f"QUERY is one argument; put it in quotes: {whole!r}")
    if arrangement["offset"] and query == STDIN:
        raise click.UsageError("--offset is for one QUERY, not for several on standard input")
    others = vector, where, arrangement["sort"], arrangement["facets"]
    if query is None and not any(others):
        raise click.UsageError(
            "Missing argument 'QUERY'; or pass --vector, --where, --sort or --facets"
        )
    check_files(STDIN, html, None)
    if html is not None and query == STDIN:
        raise click.UsageError("--html is for one QUERY, not for several on standard input")
    explain = explain or html is not None
    with usage_errors():
        index = open_index(folder, model)
        asked = {"k": k, "where": where, "explain": explain, **arrangement, **settings}
        if vector is not None:
            asked["vector"] = vector
            if query == STDIN:
                raise click.UsageError(
                    "--vector is for one QUERY, not for several on standard input"
                )
        elif query is not None and not index.can_encode and settings["fusion"] not in PURE:
            told = "created without a model; queries are searched by their words only"
            tell(f"{index.name}: {told}. To search by vectors too, pass --vector FILE or --model")
        for hits in _answers(index, query, asked):
            report = hits_report(hits, one_of_many=query == STDIN)
            if report_format == "text":
                show_report(report, report_format, html)
                continue
            if html is not None:
                save(report, html, "html")
            with standard_output() as out:  # one line per query
                out.write(json.dumps(report.data()).encode() + b"\n")


@click.command("similar")
@DIR
@click.argument("id_", metavar="ID")
@K
@CONDITION
@format_option()
def similar_command(
    folder: str,
    id_: str,
    k: int,
    where: str | None,
    report_format: Literal["text", "json"],
) -> None:
    """Find the documents of the index in DIR that are similar to the document ID.

    The query is the stored vector of this document, and up to 25 of its words with the highest BM25
    weights. The model is not run.
    """
    from vocabtool.reports.hits import hits_report

    with usage_errors():
        hits = open_index(folder, {}).similar(id_, k, where=where)
        show_report(hits_report(hits, one_of_many=True), report_format)


def _answers(index: Index, query: str | None, asked: dict[str, Any]) -> Iterator[Hits]:
    if query != STDIN:
        yield index.search(query, **asked)
        return
    del asked["offset"]
    # UTF-8 in every locale; an invalid line does not affect the others.
    lines = (line.decode("utf-8-sig", "replace").rstrip("\r\n") for line in sys.stdin.buffer)
    from vocabtool.system.parallel import in_batches

    count = 0
    for batch in in_batches(lines, BATCH_QUERIES):
        yield from index.search_many(batch, **asked)
        count += len(batch)
    refuse_nothing(count, (STDIN,), "query")
