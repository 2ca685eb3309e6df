"""Commands that search and evaluate: ``search``, ``similar``, ``eval`` and ``calibrate``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from vocabtool.choices import CALIBRATION_SAMPLE, FUSIONS, PHRASES, SELF_CHECK_SAMPLE
from vocabtool.cli.index import open_index
from vocabtool.cli.options import DIR, HTML, INDEX_MODEL, format_option, gather
from vocabtool.cli.output import (
    check_files,
    refuse_nothing,
    show_report,
    standard_output,
    step_progress,
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


# ---- evaluate and tune the ranking

QUERIES = gather(
    "queries",
    click.option(
        "--queries",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="File of queries: BEIR's JSONL (_id, text), lines of id TAB text, or TREC topics.",
    ),
    click.option(
        "--qrels",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="File of relevance judgements, in the format of BEIR or TREC.",
    ),
    click.option(
        "--vectors",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Vectors of the queries (.npy, .npz), if the index has no model.",
    ),
)


@click.command("eval")
@DIR
@QUERIES
@INDEX_MODEL
@click.option(
    "--self-check",
    is_flag=True,
    help="Evaluate without judgements: search for documents by words that they contain.",
)
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=SELF_CHECK_SAMPLE,
    show_default=True,
    help="Number of documents that --self-check searches for.",
)
@RERANK
@HTML
@format_option()
def eval_command(
    folder: str,
    queries: dict[str, Any],
    model: dict[str, Any],
    self_check: bool,
    sample: int,
    rerank: str | None,
    html: str | None,
    report_format: Literal["text", "json"],
) -> None:
    """Evaluate the ranking of the index in DIR for each fusion (see search --fusion).

    With --queries and --qrels: nDCG@10, recall@100 and MRR@10, for all queries, for queries with
    unknown words, and for queries without. With --self-check: how often documents of the index are
    found by their own words.
    """
    from vocabtool.evaluation import compare
    from vocabtool.reports.evaluation import evaluation_report, self_check_report

    if self_check == (queries["queries"] is not None or queries["qrels"] is not None):
        raise click.UsageError("pass --queries and --qrels, or --self-check")
    if self_check and rerank is not None:
        raise click.UsageError("--rerank needs judged queries: pass --queries and --qrels")
    check_files("-", html, None)
    with usage_errors():
        index = open_index(folder, model)
        with step_progress(False) as progress:
            if self_check:
                report = self_check_report(compare.self_check(index, sample, progress=progress))
            else:
                judgements = _read_judgements(queries)
                found = compare.evaluate(index, **judgements, rerank=rerank, progress=progress)
                report = evaluation_report(found)
        show_report(report, report_format, html)


@click.command("calibrate")
@DIR
@QUERIES
@INDEX_MODEL
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=CALIBRATION_SAMPLE,
    show_default=True,
    help="Number of documents that queries are made from.",
)
@click.option("--dry-run", is_flag=True, help="Print the result, but do not change the index.")
@format_option()
def calibrate_command(
    folder: str,
    queries: dict[str, Any],
    model: dict[str, Any],
    sample: int,
    dry_run: bool,
    report_format: Literal["text", "json"],
) -> int:
    """Find the best weight of keyword search for the index in DIR, and store it.

    Without judgements, the weight is estimated with queries made from the documents. With
    --queries and --qrels, it is tuned on judged queries by cross-validation.
    """
    from vocabtool.evaluation.calibrate import MIN_SAMPLE, calibrate, tune
    from vocabtool.reports.evaluation import calibration_report, tuning_report

    with usage_errors():
        index = open_index(folder, model)
        if queries["qrels"] is not None:
            with step_progress(False) as progress:
                tuned = tune(index, **_read_judgements(queries), progress=progress)
            calibration, report = tuned.calibration, tuning_report(tuned)
        else:
            if queries["vectors"] is not None:
                raise click.UsageError("--vectors needs judged queries: pass --qrels")
            if queries["queries"] is not None:
                raise click.UsageError(
                    "--queries needs relevance judgements: pass --qrels, or omit --queries"
                )
            with step_progress(False) as progress:
                found = calibrate(index, sample=sample, progress=progress)
            if found is None:
                tell(
                    f"too few documents to calibrate: fewer than {MIN_SAMPLE} have at least three "
                    "sentences and 15 words"
                )
                return 1
            calibration, report = found.calibration, calibration_report(found)
        if not dry_run:
            index.store_calibration(calibration)
        show_report(report, report_format)
    return 0


def _read_judgements(queries: dict[str, Any]) -> dict[str, Any]:
    from vocabtool.evaluation.judgements import read_qrels, read_queries, read_query_vectors

    if queries["queries"] is None or queries["qrels"] is None:
        raise click.UsageError("pass --queries and --qrels together")
    file = queries["vectors"]
    return {
        "queries": read_queries(queries["queries"]),
        "qrels": read_qrels(queries["qrels"]),
        "vectors": None if file is None else read_query_vectors(file),
    }
