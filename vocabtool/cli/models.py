"""Commands that read models: ``inspect``, ``extract``, ``words`` and ``diff``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

import click

from vocabtool.choices import FOLDS, NAMED, Only
from vocabtool.cli import options, output
from vocabtool.formats import vocabulary_files
from vocabtool.formats.files import split_name
from vocabtool.formats.vocabulary_files import FileFormat
from vocabtool.system.messages import percent, plural, tell

if TYPE_CHECKING:
    from vocabtool.comparison.compare import Diff
    from vocabtool.documents.options import ReadOptions

MODEL_HELP = """MODEL is the folder of a SavedModel, a frozen graph's .pb, a TensorFlow Hub handle
(https://...) that is in the local cache, or another file with a vocabulary: a .keras archive, a
tokenizer.json, vocab.json or vocab.txt, a SentencePiece model, tiktoken ranks, GGUF, ONNX, TFLite,
TensorFlow.js, word vectors (GloVe, word2vec, fastText, .npz), a word list, a file that extract
wrote, a spaCy pipeline, a static embedding (model2vec), an ONNX graph beside a tokenizer.json, or a
folder of such files. The content of a file shows its format. MODEL#NAME selects one of several
vocabularies. The model is not run. TensorFlow is not needed."""


@click.command("inspect", epilog=MODEL_HELP)
@click.argument("model")
@click.option(
    "--all",
    "show_all",
    is_flag=True,
    help="Also list constants of fewer than ten strings, and skipped lists with the reason "
    "for skipping.",
)
@options.format_option("Table (tab-separated if not on a terminal), or JSON.", ("table", "json"))
def inspect_command(model: str, show_all: bool, report_format: Literal["table", "json"]) -> None:
    """List every vocabulary in MODEL: name, kind, size, ids, location.

    In JSON, `"complete": true` means that vocabtool read every place where it expects words in this
    format. Other places can exist: skipped lists (see --all), folders inside a folder, code, and
    custom ops.
    """
    from vocabtool.formats.registry import choose, inspect
    from vocabtool.reports.inspection import model_report

    path, name = split_name(model)
    contents = inspect(path, small=show_all or name is not None)
    if name is not None:
        contents = contents._replace(vocabularies=(choose(contents, name),))
    report = model_report(contents, passed_over=show_all)
    output.deliver_report(report, "-", None, report_format)
    if report_format != "json" and not contents.vocabularies:
        passed = f"{len(contents.passed_over)} lists skipped"
        hint = (
            "" if show_all or not contents.passed_over else ". --all lists them, with the reasons"
        )
        tell(f"{contents.path}: no vocabulary found ({contents.format}; {passed}){hint}")
    for warning in contents.warnings:
        tell(f"incomplete: {warning}")


@click.command("extract", epilog=MODEL_HELP)
@click.argument("model")
@click.option(
    "--format",
    "form",
    type=click.Choice(get_args(FileFormat)),
    help="text: one entry a line; csv: with ids; json and parquet: everything. "
    "[default: by the ending of FILE; text for .txt or no ending]",
)
@options.OUTPUT
def extract_command(model: str, form: FileFormat | None, file: str) -> None:
    """Write the words of one vocabulary in MODEL, in the order of their ids.

    By default, this is the largest lookup table, else the largest list. MODEL#NAME names another.
    """
    from vocabtool.formats.registry import choose, inspect

    output.check_files(file, None, form, vocabulary_files.ENDINGS)
    path, name = split_name(model)
    contents = inspect(path, small=name is not None)
    vocabulary = choose(contents, name)
    for warning in contents.warnings:
        tell(f"incomplete: {warning}")
    if file == "-":
        escaped = 0
        with output.standard_output() as out:  # a write error comes before any message
            escaped = vocabulary_files.write(vocabulary, out, form or "text")
    else:
        escaped = vocabulary_files.save(vocabulary, file, form)
        form = form or vocabulary_files.ENDINGS.get(Path(file).suffix.lower())
    if name is None:
        among = len(contents.vocabularies)
        others = f", the first of {among}; use MODEL#NAME for another" if among > 1 else ""
        tell(f"{vocabulary.name}: {len(vocabulary):,} entries ({vocabulary.kind}){others}")
    if escaped:
        tell(
            f"{plural(escaped, 'entry', 'entries')} written with backslash escapes, because of "
            "line breaks or invalid UTF-8"
        )
    if form in (None, "text") and (vocabulary.first_id or vocabulary.ids is not None):
        tell(
            f"--format text omits the ids ({vocabulary.id_range}); use --format json to write them"
        )


WORDS_MODEL = """MODEL is the folder of a SavedModel, a frozen graph's .pb, a TensorFlow Hub handle
(https://...) that is in the local cache, a SentencePiece model, a tokenizer.json, a GGUF file, a
vocab.txt or vocab.json with its tokenizer_config.json, a Keras tokenizer, a .keras archive with a
TextVectorization, WordEmbeddings of sentence-transformers, tekken.json, ranks that OpenAI
publishes, tiktoken:NAME, a static embedding (model2vec), an ONNX graph beside a tokenizer.json, or
word vectors of `vocabtool train`: these define how texts become words. For other word vectors, the
rule that fits their entries best is used without --rule. Any other file or folder that `vocabtool
extract` reads needs --rule. MODEL#NAME selects one of several vocabularies."""
WORDS_RULE = options.rule_option(
    "Rule that splits texts into words, for models without a rule of their own: "
    f"{options.RULES}. Take the rule that the model was trained with: keras for "
    "TextVectorization, ptb for GloVe, tokenizer:FILE for subword pieces, lower for entries "
    "in lower case, else whitespace."
)


@click.command("words", epilog=WORDS_MODEL)
@click.argument("model")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@WORDS_RULE
@options.format_option("Columns (tab-separated if not on a terminal), or JSON.", ("table", "json"))
def words_command(
    model: str,
    texts: tuple[str, ...],
    report_format: Literal["table", "json"],
    rule: str | None,
) -> None:
    """Show how MODEL splits TEXT into words, and which words it knows."""
    from vocabtool.reports.inspection import words_report
    from vocabtool.tokenization.words import words_of

    report = words_report(words_of(model, rule), texts)
    output.deliver_report(report, "-", None, report_format)


WHOLE: Final = (".json", ".html")  # endings of files that contain the whole comparison
BATCH_BYTES: Final = 4 << 20  # bytes of text per batch

DIFF_HELP = """A and B are models or word lists: anything that `vocabtool extract` reads. FILE#NAME
selects one of several vocabularies in FILE by the name that `inspect` prints. Entries are compared
byte for byte unless --fold is set. But if one of them has pieces with markers, entries are compared
by the text that they stand for: `the` of WordPiece equals `▁the` and `Ġthe`, and `##ing` equals
`ing`."""


@click.command("diff", epilog=DIFF_HELP)
@click.argument("a")
@click.argument("b")
@click.option(
    "--fold",
    default="",
    metavar="FOLDS",
    help=f"Differences to ignore, separated by commas: {', '.join(FOLDS)}. [default: none]",
)
@click.option(
    "--corpus",
    multiple=True,
    metavar="FILE",
    help="Documents in which to count the words that A and B know. If A or B has pieces with "
    "markers, A and B each split the documents by their own rule, and pieces are counted too. May "
    "be repeated.",
)
@options.TEXTS
@options.rule_option(
    f"Rule that splits the corpus into words, for A and B: {', '.join(NAMED)} or regex:PATTERN. "
    "[default: keras; if A or B has pieces with markers, each uses its own rule]"
)
@click.option(
    "--format",
    "form",
    type=click.Choice(get_args(FileFormat)),
    help="text: tables on a terminal, else complete tab-separated lists; json: everything; csv and "
    "parquet: complete lists. [default: by the ending of -o, else text]",
)
@options.OUTPUT
@options.HTML
@click.option(
    "--limit",
    type=click.IntRange(0),
    metavar="N",
    help="Show at most N entries in each list, lowest ids first. [default: all; a few in tables "
    "and pages]",
)
@click.option(
    "--only",
    type=click.Choice(get_args(Only)),
    help="Print one complete list: a (entries only in A), b (only in B) or both (in both). "
    "For the formats text, csv and parquet. [default: all three lists]",
)
def diff_command(
    a: str,
    b: str,
    fold: str,
    corpus: tuple[str, ...],
    read: ReadOptions,
    rule: str | None,
    form: FileFormat | None,
    file: str,
    html: str | None,
    limit: int | None,
    only: Only | None,
) -> None:
    """Compare the vocabularies A and B: entries in both, and entries in only one."""
    if not corpus and (rule or read.field or read.format):
        raise click.UsageError("--rule, --field and --input-format need --corpus")
    output.check_files(file, html, form, output.REPORT_ENDINGS)
    if only is not None:  # other formats contain the whole comparison
        ending = Path(file).suffix.lower()
        if html is not None or form == "json" or (form is None and ending in WHOLE):
            raise click.UsageError(
                "--only works with text, csv and parquet, not with json and --html"
            )
    import pyarrow as pa

    from vocabtool.comparison.compare import compare
    from vocabtool.reports.comparison import diff_report, known_to

    pa.set_memory_pool(pa.system_memory_pool())  # Arrow's allocator needs 25 % more memory here
    with output.usage_errors():
        comparison = compare(a, b, fold)
    output.tell_notes(comparison.notes)
    if corpus:
        comparison = _weigh(comparison, corpus, read, rule)
    report = diff_report(comparison, limit, only)
    output.deliver_report(report, file, html, form, as_list=only is not None)
    if file == "-" and form in (None, "text") and only is None and output.width() is not None:
        return  # the printed tables already contain these figures
    tell(
        f"{comparison.common:,} entries common, {comparison.only_a:,} only in {a}, "
        f"{comparison.only_b:,} only in {b}"
    )
    use, cuts = comparison.use, comparison.cuts
    if use is not None:
        known = ", ".join(f"{name} {percent(use.share(tokens))}" for name, tokens in known_to(use))
        tell(f"{use.tokens:,} tokens; known tokens: {known} (rule for both: {use.rule_name})")
    for label, cut in ((a, cuts.a), (b, cuts.b)) if cuts is not None else ():
        tell(
            f"{label}: {cut.tokens:,} words, {cut.pieces:,} pieces, {cut.fertility:.2f} pieces "
            f"per word, {cut.unknown:,} unknown words (by its own rule)"
        )


def _weigh(comparison: Diff, corpus: tuple[str, ...], read: ReadOptions, rule: str | None) -> Diff:
    from vocabtool.comparison.compare import weigh
    from vocabtool.documents.reading import ReadLog, left_out

    log = ReadLog()
    texts = (batch.texts for batch in output.read_documents(corpus, read, log, BATCH_BYTES))
    weighed = weigh(comparison, texts, corpus, rule=rule)
    output.tell_skipped(log.skipped)
    counted = weighed.use or weighed.cuts
    output.refuse_empty(counted.documents if counted else 0, corpus, skipped=log.skipped.first)
    weighed = replace(weighed, notes=(*weighed.notes, *log.notes, *left_out([*corpus], read)))
    output.tell_notes(weighed.notes[len(comparison.notes) :])
    return weighed
