"""Imports point one way: a part may import what stands above it in this table, never below."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache

import pytest

import vocabtool
from tests.conftest import ROOT

PACKAGE = ROOT / "vocabtool"

# From the core to the edges. Files in one row may not import each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "telling", "allocation"),
    ("byte_strings", "whole_file", "parallel", "repeated_ids", "ranked"),
    ("checksums", "folder_lock", "native_import"),
    ("vocabulary",),
    ("model", "markers", "vocabulary_files.facts", "pages", "plots", "text_tables"),
    (
        "vocabulary_files.text",
        "vocabulary_files.json_file",
        "vocabulary_files.csv_file",
        "vocabulary_files.parquet_file",
    ),
    ("vocabulary_files.__init__",),
    # Model files.
    ("formats.reader",),
    ("formats.wire", "formats.saved_model_schema", "formats.string_chains"),
    ("formats.zip_archive", "formats.numpy_array", "formats.json_values", "formats.keras_layers"),
    ("formats.json_parsing",),
    ("formats.wire_arrays", "formats.flatbuffer", "formats.double_array", "formats.pieces"),
    ("formats.mapped", "formats.named_files"),
    ("formats.tensors", "formats.text_file", "formats.text_format", "formats.hub_cache"),
    ("formats.onnx_values", "formats.tflite_schema", "formats.tfjs_weights", "formats.vector_rows"),
    ("formats.leveldb_table", "formats.sentencepiece", "formats.text_tokenizers"),
    ("formats.checkpoint", "formats.keras_metadata", "formats.graph", "formats.object_graph"),
    ("formats.meta_graph",),
    ("formats.linking", "formats.graph_files"),
    ("formats.lookups", "formats.constants", "formats.graph_tokenizers"),
    ("formats.fills", "formats.assets"),
    ("formats.tables", "formats.saved_tables"),
    ("formats.saved_model",),
    # A reader per format.
    ("formats.hf_tokenizer", "formats.hf_vocab_json", "formats.spacy_strings", "formats.tfjs"),
    ("formats.tiktoken_ranks", "formats.keras_tokenizer", "formats.rwkv_vocab"),
    ("formats.tekken", "formats.scored_pieces"),
    ("formats.json_text", "formats.exports", "formats.keras_archive", "formats.pickles"),
    ("formats.sentencepiece_file", "formats.word_list", "formats.gguf"),
    ("formats.flexbuffer", "formats.tflite_tables", "formats.tflite_files"),
    ("formats.tflite_tokenizers",),
    ("formats.onnx_operators",),
    ("formats.onnx_extensions",),
    ("formats.tflite", "formats.onnx", "formats.text_vectors", "formats.fasttext_bin"),
    ("formats.binary_vectors", "formats.numpy_vectors"),
    ("formats.readers", "formats.spacy_vocab"),
    ("formats.model_folder",),
    ("formats.detect",),
    ("extraction", "inspection", "word_vectors"),
    # Texts to words.
    ("words.cut", "words.judged", "words.surface"),
    ("words.distinct", "words.in_order"),
    ("words.strings", "words.normalizing", "words.ngrams", "words.wordpiece"),
    ("words.tokenizing", "words.sentencepieces", "words.named"),
    ("words.bert", "words.alignment", "words.trail"),
    ("words.rule", "words.lexicon", "words.op", "words.sites"),
    ("words.slices", "words.hf_tokenizer_chunks"),
    ("words.op_steps", "words.hf_tokenizer_steps"),
    ("words.recovery", "words.hf_tokenizers"),
    ("words.judging", "words.sentencepiece_judge", "words.readings", "words.trust"),
    ("words.subwords", "words.graph_taps", "words.tap_alignment", "words.hf_tokenizer_judge"),
    ("words.keras_tokenizer_judge",),
    ("words.checked_model", "words.tap_words"),
    ("words.model_functions",),
    ("words.tap_model",),
    ("words.tap_reports",),
    ("words.tap",),
    ("words.tap_judge",),
    ("words.model_words", "words.__init__"),
    ("mask", "words_report"),
    # Corpora.
    ("document_files.rows", "document_files.opening"),
    (
        "document_files.lines",
        "document_files.csv_file",
        "document_files.objects",
        "document_files.nanoseconds",
    ),
    ("document_files.columns", "document_files.items", "document_files.duplicates"),
    ("document_files.jsonl", "document_files.parquet_file", "document_files.arrow_ipc"),
    ("document_files.tfrecord", "document_files.sources"),
    ("document_files.extent",),
    ("documents", "document_files.__init__"),
    # Streams and their operators.
    ("shaping.starting", "shaping.arrow_out", "shaping.reading"),
    ("shaping.batching", "shaping.caching", "shaping.interleaving", "shaping.mapping"),
    ("shaping.shuffling", "shaping.slicing", "shaping.sizes", "shaping.ray_out"),
    ("shaping.mixing", "shaping.shards", "shaping.tensorflow_out", "shaping.__init__"),
    ("streams",),
    ("oov.lookalikes", "oov.word_examples", "oov.word_sketches", "oov.batch_counts"),
    ("oov.word_tally", "oov.report", "oov.chunk_table"),
    ("oov.figures", "oov.chunk_counts"),
    ("oov.counts",),
    ("oov.counter", "oov.__init__"),
    (
        "oov_report_files.plain_words",
        "oov_report_files.json_file",
        "oov_report_files.csv_file",
    ),
    ("oov_report_files.parquet_file", "oov_report_files.table", "oov_report_files.figures"),
    ("oov_report_files.html",),
    ("oov_report_files.__init__",),
    # Vocabularies compared.
    ("comparison.entries",),
    ("comparison.characters", "comparison.union"),
    ("comparison.folding", "comparison.ranks"),
    ("comparison.gains", "comparison.kinds", "comparison.use"),
    ("comparison.diff",),
    ("comparison.pairwise", "comparison.__init__"),
    ("diff_report_files.plain_words", "diff_report_files.rows"),
    (
        "diff_report_files.json_file",
        "diff_report_files.csv_file",
        "diff_report_files.text",
        "diff_report_files.figures",
    ),
    ("diff_report_files.parquet_file", "diff_report_files.html"),
    ("diff_report_files.__init__",),
    ("diff_report_files.pairs",),
    # Texts to vectors.
    ("oov.unknown_words", "encoders.encoder", "encoders.__init__"),
    ("encoders.piping", "encoders.inexact", "encoders.decoding", "encoders.checked_vectors"),
    ("encoders.python_names", "encoders.sentence_transformers_files", "encoders.static_rules"),
    ("encoders.static_lookup", "encoders.static_vectors", "encoders.static_weights"),
    ("encoders.static_means", "encoders.saved_model_files", "encoders.saved_model_words"),
    ("encoders.static_fitting", "encoders.saved_model_inputs", "encoders.saved_model_vectors"),
    ("encoders.static", "encoders.python_callable", "encoders.sentence_transformers"),
    ("encoders.saved_model_run", "encoders.recognising"),
    ("encoders.tensorflow",),
    ("encoders.opening",),
    # Documents to shards of vectors.
    ("pipeline.inputs", "pipeline.slabs", "pipeline.utf8", "pipeline.vector_cache"),
    ("pipeline.plan", "pipeline.__init__"),
    ("pipeline.reading", "pipeline.encoding"),
    ("pipeline.shard_files", "pipeline.report"),
    ("pipeline.folder", "pipeline.making"),
    ("pipeline.shards", "pipeline.fitting", "pipeline.local_runner"),
    ("pipeline.ray_runner",),
    ("pipeline.embed",),
    # Keywords and vectors.
    ("keywords.__init__", "keywords.queries", "keywords.shapes", "keywords.folding"),
    ("keywords.identifiers", "keywords.stemming", "keywords.noted_lengths", "keywords.damage"),
    ("keywords.tantivy_files",),
    ("keywords.tokens", "keywords.surfaces", "keywords.stop_words", "keywords.tantivy_queries"),
    ("keywords.cutting",),
    ("keywords.plain_bm25", "keywords.spellings", "keywords.highlights"),
    ("keywords.tantivy_engine",),
    ("vectors.__init__", "vectors.metric", "vectors.cost", "vectors.facts"),
    ("vectors.raw", "vectors.codebook"),
    ("vectors.exact", "vectors.fast_scan", "vectors.recall"),
    ("vectors.building", "vectors.chance", "vectors.leg"),
    ("vectors.remeasuring",),
    # A query and its answer.
    ("search.__init__", "search.calibration", "search.knowledge"),
    ("search.fusion", "search.model_knowledge", "search.settings"),
    ("search.candidates", "search.ordering", "search.corpus"),
    ("search.hits", "search.weighing"),
    ("search.query",),
    ("search.empty_hands", "search.legs"),
    ("search.explaining",),
    ("search.searching",),
    # A folder to search in.
    ("index.__init__", "index.document_fields"),
    ("index.conditions", "index.deletions", "index.document_columns"),
    ("index.configuration", "index.document_files", "index.vector_file"),
    ("index.row_hashes", "index.sources"),
    ("index.document_items", "index.document_tables"),
    ("index.belonging", "index.document_rows", "index.document_writer", "index.manifest"),
    ("index.document_store", "index.folder"),
    ("index.appending", "index.coding", "index.filters", "index.mending", "index.replacing"),
    ("index.snapshot", "index.writer", "index.named_files"),
    ("index.unchanged",),
    ("index.compacting", "index.loading", "index.verifying"),
    ("index.index",),
    # How good its answers are.
    ("evaluation.__init__", "evaluation.bootstrap", "evaluation.lines", "evaluation.metrics"),
    ("evaluation.sentences",),
    ("evaluation.qrels", "evaluation.queries", "evaluation.query_vectors"),
    ("evaluation.altered", "evaluation.pseudo_queries", "evaluation.exact_recall"),
    ("evaluation.reweighing", "evaluation.judged_queries"),
    ("evaluation.query_shift",),
    ("evaluation.calibrating", "evaluation.known_items"),
    ("evaluation.comparing", "evaluation.tuning"),
    ("__init__", "formats.__init__"),
    ("demo.documentation", "demo.questions", "demo.training"),
    ("demo.asking", "demo.folder", "demo.sentence_encoder"),
    ("demo.running",),
    ("demo.story", "demo.__init__"),
    ("command_streams",),
    ("model_commands",),
    ("text_commands", "diff_command"),
    ("source_options",),
    ("embed_command", "index_report", "search_report", "evaluation_report", "demo_command"),
    ("index_options",),
    ("index_command", "upkeep_commands"),
    ("search_command",),
    ("evaluation_commands",),
    ("cli",),
    ("__main__",),
)
HEAVY = (
    *("tensorflow", "faiss", "pyarrow", "tantivy", "ray", "google.protobuf", "rich", "matplotlib"),
    *("datasketches", "sentencepiece", "re2", "regex", "unicodedataplus", "tokenizers", "pandas"),
)


# What reads models: an index opens sooner without.
READING = ("vocabtool.formats.readers", "vocabtool.formats.detect", "vocabtool.words.readings")


@cache
def files() -> dict[str, ast.Module]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found[name] = ast.parse(path.read_text("utf-8"))
    return found


def imported(tree: ast.Module, known: set[str]) -> set[str]:
    """The files of the package that a file imports, at its top or inside a function."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    inside = {name.removeprefix("vocabtool.") for name in names if name.startswith("vocabtool")}
    return inside & known | ({"__init__"} if "vocabtool" in names else set())


def test_the_public_names() -> None:
    """What the package says it exports is there, and nothing else is public."""
    assert [name for name in vocabtool.__all__ if not hasattr(vocabtool, name)] == []
    assert set(dir(vocabtool)) == {*vocabtool.__all__, "__version__", "open"}
    assert "open" not in vocabtool.__all__  # or `import *` would take Python's own away
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = vocabtool.nonsense


def test_every_file_is_in_the_table() -> None:
    """The table names each file once, and no file that is not there."""
    listed = [name for row in LAYERS for name in row]
    assert sorted(listed) == sorted(files())


@pytest.mark.parametrize("name", sorted(files()))
def test_imports_point_up(name: str) -> None:
    """A file imports only from rows above its own."""
    layer = {file: row for row, names in enumerate(LAYERS) for file in names}
    trees = files()
    wrong = {
        other
        for other in imported(trees[name], set(layer))
        if layer[other] >= layer[name] and name != "__init__"
    }
    assert wrong == set()


@pytest.mark.parametrize(
    "statement",
    [
        "import vocabtool",
        "import vocabtool; vocabtool.extract('data/sentence_encoder')",
        "import vocabtool.cli",
    ],
)
def test_heavy_libraries_are_imported_on_use(statement: str) -> None:
    """Neither the import nor an extraction loads TensorFlow, FAISS, pyarrow, tantivy or Ray."""
    assert loaded(statement, HEAVY) == []


def test_an_index_does_not_import_what_reads_models() -> None:
    """Each is imported where a model is read."""
    assert loaded("from vocabtool import Index", READING) == []


def loaded(statement: str, modules: tuple[str, ...]) -> list[str]:
    """Which of these modules a fresh Python has after a statement."""
    code = f"{statement}\nimport sys\nprint(*(m for m in {modules!r} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout.split()
