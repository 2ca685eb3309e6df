"""The command that searches an index: ``search``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from vocabtool.choices import FUSIONS, NO_RESULTS, PHRASES
from vocabtool.cli.index import open_index
from vocabtool.cli.options import DIR, INDEX_MODEL, format_option, gather
from vocabtool.cli.output import refuse_nothing, show_report, standard_output, usage_errors
from vocabtool.errors import InvalidCondition
from vocabtool.system.messages import tell

if TYPE_CHECKING:
    from vocabtool.index.index import Index
    from vocabtool.search.hits import Hits

PURE: Final = ("dense", "keyword")  # fusions that use one leg only
STDIN: Final = "-"
BATCH_QUERIES: Final = 256  # queries of standard input that are encoded at once

WHERE: Final = (
    "Condition on fields, for example: year >= 2020 and lang = 'en'. In tags contains 'x', a list "
    "must have the element 'x', a text must have the substring."
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
        help="Weight of the keyword leg. [default: calibrated, else 0.5]",
    ),
    click.option(
        "--boost",
        metavar="X",
        type=click.FloatRange(0),
        default=0.5,
        show_default=True,
        help="Give words that the model does not know the weight 1 + X in keyword search.",
    ),
    click.option(
        "--code-boost",
        metavar="X",
        type=click.FloatRange(0),
        default=2.0,
        show_default=True,
        help="Give identifiers, but not their parts, at least the weight 1 + X in keyword search.",
    ),
    click.option(
        "--k-rrf",
        type=click.IntRange(1),
        default=60,
        show_default=True,
        help="Constant k of reciprocal rank fusion.",
    ),
    click.option(
        "--depth",
        type=click.IntRange(1, 1_000_000),
        default=None,
        help="Number of candidates from each leg. [default: 100, or all documents if there "
        "are at most 2,000]",
    ),
    click.option(
        "--guarantee/--no-guarantee",
        default=True,
        show_default=True,
        help="Rank documents that contain an identifier of the query above all others.",
    ),
    click.option(
        "--identifier",
        metavar="REGEX",
        help="Regular expression that matches identifiers. [default: matches names and codes such "
        "as os.path, a_b, a::b, camelCase, CVE-2024-1234]",
    ),
    click.option(
        "--phrases",
        type=click.Choice(PHRASES),
        default="required",
        show_default=True,
        help="Whether a document must contain the quoted phrases of the query.",
    ),
    click.option(
        "--empty",
        type=click.Choice(NO_RESULTS),
        default="nothing",
        show_default=True,
        help="What to show if the words of the query are unknown to the model and in no document.",
    ),
)


@click.command("search", context_settings={"allow_extra_args": True})
@DIR
@click.argument("query", metavar="QUERY")
@INDEX_MODEL
@click.option("-k", type=click.IntRange(1), default=10, show_default=True, help="Number of hits.")
@click.option("--where", metavar="CONDITION", help=WHERE)
@click.option(
    "--vector",
    metavar="FILE[#N]",
    help="The vector of QUERY, if your own model makes the vectors: a .npy, .npz or .parquet file "
    "with one row, or its row N, counted from 0.",
)
@click.option("--explain", is_flag=True, help="Explain each hit and the weight of each word.")
@SETTINGS
@format_option("json: one object for each query.")
def search_command(
    folder: str,
    query: str,
    model: dict[str, Any],
    k: int,
    where: str | None,
    vector: str | None,
    explain: bool,
    settings: dict[str, Any],
    report_format: Literal["text", "json"],
) -> None:
    """Find the documents of the index in DIR that answer QUERY best.

    Keyword search gives more weight to words that the model does not know. If QUERY is -, each
    line of standard input is a query.
    """
    from vocabtool.reports.index import hits_report

    more = click.get_current_context().args
    if more:
        whole = " ".join((query, *more))
        raise click.UsageError(f"QUERY is one argument; put it in quotes: {whole!r}")
    with usage_errors():
        index = open_index(folder, model)
        asked = {"k": k, "where": where, "explain": explain, **settings}
        if vector is not None:
            asked["vector"] = vector
            if query == STDIN:
                raise click.UsageError("--vector is for one QUERY, not for those of -")
        elif not index.can_encode and settings["fusion"] not in PURE:
            tell(f"{folder}: created without a model; queries are searched by their words only")
        for hits in _answers(index, query, asked):
            report = hits_report(hits, one_of_many=query == STDIN)
            if report_format == "text":
                show_report(report, report_format)
                continue
            with standard_output() as out:  # one line per query
                out.write(json.dumps(report.data()).encode() + b"\n")


def _answers(index: Index, query: str, asked: dict[str, Any]) -> Iterator[Hits]:
    if query != STDIN:
        _refuse_open_quote(query)
        yield index.search(query, **asked)
        return
    # UTF-8 in every locale; an invalid line does not affect the others.
    lines = (line.decode("utf-8-sig", "replace").rstrip("\r\n") for line in sys.stdin.buffer)
    from vocabtool.keywords.cutter import open_quote
    from vocabtool.system.parallel import in_batches

    count = 0
    for batch in in_batches(lines, BATCH_QUERIES):
        bad = (at for at, line in enumerate(batch) if open_quote(line) is not None)
        end = next(bad, len(batch))  # queries before the invalid one are answered
        yield from index.search_many(batch[:end], **asked)
        for line in batch[end:]:
            _refuse_open_quote(line, f"line {count + end + 1:,}: ")
        count += len(batch)
    refuse_nothing(count, (STDIN,), "query")


def _refuse_open_quote(query: str, place: str = "") -> None:
    """Raise :class:`InvalidCondition` if a quote in ``query`` is never closed."""
    from vocabtool.keywords.cutter import open_quote

    position = open_quote(query)
    if position is not None:
        what = f"{place}the quote at character {position + 1} is never closed"
        raise InvalidCondition(f"{what}; close or remove it", query, position)
