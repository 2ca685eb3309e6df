"""A model's folder is read as transformers reads it: pieces and ids of every hard text."""

# own process: transformers

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tokenizers import AddedToken, Tokenizer, pre_tokenizers

import vocabtool
from tests.tokenization.test_tokenizer_files import (
    GPT2,
    HARD,
    QWEN2,
    byte_pairs,
    in_order,
    merges_of,
    sentence_model,
    word_pieces,
)
from vocabtool import Words
from vocabtool.cli.main import cli
from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError

TEXTS = (*HARD, "I use Xapian, XAPIAN and xapian", "a <mask> b<unk> </s>", "Ünïcödé [CLS] [MASK]x")
CONFIG = "tokenizer_config.json"


def write_json(file: Path, value: object) -> None:
    file.write_text(json.dumps(value), "utf-8")


def of_bert(lower: bool, **settings: Any) -> Callable[[Path], None]:
    """A tokenizer.json of BERT with other settings beside it. ``added``: names of tokens."""

    def build(folder: Path) -> None:
        made, more = Tokenizer.from_str(word_pieces(lower).to_str()), dict(settings)
        made.add_tokens([AddedToken("Xapian", normalized=True)] * more.pop("in_file", False))
        size = made.get_vocab_size()
        if more.pop("added_json", False):
            write_json(folder / "added_tokens.json", {"Xapian": size, "<x>": size + 1})
        if more.pop("decoder", False):
            flags = dict.fromkeys(
                ("lstrip", "rstrip", "single_word", "normalized", "special"), False
            )
            more["added_tokens_decoder"] = {str(size): {"content": "XAPIAN", **flags}}
        made.save(str(folder / "tokenizer.json"))
        write_json(folder / CONFIG, {"tokenizer_class": "BertTokenizer", **more})

    return build


def lowered(folder: Path) -> None:
    of_bert(False, do_lower_case=False)(folder)
    write_json(folder / "sentence_bert_config.json", {"do_lower_case": True})


def of_openai(folder: Path) -> None:
    """OpenAI's own names of the two files of GPT-2."""
    made = byte_pairs(GPT2)
    write_json(folder / "encoder.json", made.get_vocab())
    (folder / "vocab.bpe").write_text("\n".join(merges_of(made)), "utf-8")


def of_bytes(name: str, **settings: Any) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        made = Tokenizer.from_str(byte_pairs(GPT2).to_str())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.add_special_tokens(
            ["<s>", "</s>", "<unk>", "<pad>", "<mask>"] * (name == "RobertaTokenizer")
        )
        made.save(str(folder / "tokenizer.json"))
        write_json(folder / CONFIG, {"tokenizer_class": name, **settings})

    return build


ALBERTS = (
    *(("control_symbols", "[CLS],[SEP],[MASK]"), ("pad_id", 0), ("unk_id", 1)),
    *(("bos_id", -1), ("eos_id", -1)),
)


def of_pieces(
    file: str, name: str | None, kind: str = "", **settings: Any
) -> Callable[[Path], None]:
    """A SentencePiece model of a class of transformers."""
    options = ALBERTS if name == "AlbertTokenizer" else ()

    def build(folder: Path) -> None:
        (folder / file).write_bytes(sentence_model("unigram", options))
        if name is not None:
            write_json(folder / CONFIG, {"tokenizer_class": name, **settings})
        if kind:
            write_json(folder / "config.json", {"model_type": kind})

    return build


def albert(folder: Path) -> None:
    """ALBERT with both files, which have equal entries."""
    transformers = pytest.importorskip("transformers")
    of_pieces("spiece.model", "AlbertTokenizer", do_lower_case=True)(folder)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)


def of_entries(**settings: Any) -> Callable[[Path], None]:
    """The vocab.txt of BERT with settings."""

    def build(folder: Path) -> None:
        entries = in_order(word_pieces(settings.get("do_lower_case", True)).get_vocab())
        (folder / "vocab.txt").write_text("\n".join(entries) + "\n", "utf-8")
        write_json(folder / CONFIG, settings)

    return build


CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"


def of_pairs(
    pattern: str, *special: str, suffix: str = "", kind: str = "", **settings: Any
) -> Callable[[Path], None]:
    """The vocab.json and merges.txt of a byte-level BPE."""

    def build(folder: Path) -> None:
        made = byte_pairs(pattern, suffix)
        entries = [*in_order(made.get_vocab()), *special]
        numbers = {entry: number for number, entry in enumerate(entries)}
        write_json(folder / "vocab.json", numbers)
        lines = ["#version: 0.2", *merges_of(made)]
        (folder / "merges.txt").write_text("\n".join(lines) + "\n", "utf-8")
        if kind:
            write_json(folder / "config.json", {"model_type": kind})
        write_json(folder / CONFIG, settings)

    return build


ENDS = ("<pad>", "</s>", "<unk>", "<mask>")


def marian(folder: Path) -> None:
    (folder / "source.spm").write_bytes(sentence_model("unigram", ()))
    (folder / "target.spm").write_bytes(sentence_model("bpe", ()))
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_proto=(folder / "source.spm").read_bytes())
    pieces = [model.id_to_piece(number) for number in range(3, model.get_piece_size())]
    names = ["</s>", "<unk>", *sorted(pieces[:-20]), "<pad>"]
    write_json(folder / "vocab.json", {name: number for number, name in enumerate(names)})
    write_json(folder / CONFIG, {"tokenizer_class": "MarianTokenizer", "source_lang": "en"})


LAYOUTS: dict[str, Callable[[Path], None]] = {
    "added token, lower-cased": of_bert(True, in_file=True),
    "added_tokens.json": of_bert(False, added_json=True, do_lower_case=False),
    "added_tokens_decoder": of_bert(True, decoder=True),
    "do_lower_case": of_bert(True, do_lower_case=False),
    "lower-cased by default": of_bert(False),
    "strip_accents": of_bert(True, strip_accents=False, tokenize_chinese_chars=False),
    "sentence_bert_config.json": lowered,
    "GPT-2": of_bytes("GPT2Tokenizer"),
    "add_prefix_space": of_bytes("GPT2Tokenizer", add_prefix_space=True),
    "RoBERTa": of_bytes("RobertaTokenizer", add_prefix_space=True),
    "ALBERT, both files": albert,
    "ALBERT": of_pieces("spiece.model", "AlbertTokenizer"),
    "ALBERT, cased": of_pieces(
        "spiece.model", "AlbertTokenizer", do_lower_case=False, keep_accents=True),
    "XLM-R": of_pieces("sentencepiece.bpe.model", "XLMRobertaTokenizer"),
    "XLM-R by model type": of_pieces("sentencepiece.bpe.model", None, "xlm-roberta"),
    "CamemBERT": of_pieces("sentencepiece.bpe.model", "CamembertTokenizer"),
    "vocab.txt": of_entries(tokenizer_class="BertTokenizer"),
    "vocab.txt, settings only": of_entries(do_lower_case=True),
    "vocab.txt, cased": of_entries(tokenizer_class="DistilBertTokenizerFast", do_lower_case=False),
    "vocab.txt, three settings": of_entries(
        do_lower_case=False, strip_accents=True, tokenize_chinese_chars=False),
    "vocab.json of GPT-2": of_pairs(
        GPT2, "<|endoftext|>", *ENDS, tokenizer_class="GPT2Tokenizer"),
    "vocab.json of RoBERTa": of_pairs(
        GPT2, "<s>", *ENDS, tokenizer_class="RobertaTokenizer", add_prefix_space=True),
    "vocab.json of Qwen": of_pairs(
        QWEN2, "<|im_start|>", *ENDS, tokenizer_class="Qwen2Tokenizer", eos_token="<|im_start|>"),
    "CLIP": of_pairs(
        CLIP, "<|startoftext|>", *ENDS, suffix="</w>", tokenizer_class="CLIPTokenizer",
        bos_token="<|startoftext|>", unk_token="<unk>"),
    "CLIP without a class": of_pairs(
        CLIP, "<|startoftext|>", "<|endoftext|>", suffix="</w>", kind="clip",
        unk_token="<|endoftext|>"),
    "Marian": marian,
    "OpenAI": of_openai,
}  # fmt: skip


def ids(words: Words, text: str) -> list[int]:
    """Return the ids of a text's pieces; a piece that is no entry has the id of unknown words."""
    judged, vocabulary = words.look_up([text]), words.vocabulary
    assert judged.spelled is not None
    unknown = -1 if vocabulary.unknown is None else vocabulary.unknown.id
    numbers, positions = vocabulary.id_array().tolist(), vocabulary.positions
    pieces = (p for code in judged.codes.tolist() for p, _ in judged.spelled.of_word(code))
    return [unknown if piece not in positions else numbers[positions[piece]] for piece in pieces]


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers", reason="the owner of these folders")
    warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    LAYOUTS[name](tmp_path)
    given = [text.lower() if LAYOUTS[name] is lowered else text for text in TEXTS]
    owner = tmp_path / "owner"
    if LAYOUTS[name] is of_openai:
        owner.mkdir()
        for theirs, ours in (("vocab.json", "encoder.json"), ("merges.txt", "vocab.bpe")):
            (owner / theirs).write_bytes((tmp_path / ours).read_bytes())
        write_json(owner / CONFIG, {"tokenizer_class": "GPT2Tokenizer"})
    options = {"tokenizer_type": "bert"} if name.startswith("vocab.txt, ") else {}
    library = transformers.AutoTokenizer.from_pretrained(
        owner if owner.exists() else tmp_path, local_files_only=True, **options
    )
    words = Words.of(tmp_path)
    assert words.how == "recovered"
    wanted = [library(text, add_special_tokens=False)["input_ids"] for text in given]
    found = [ids(words, text) for text in TEXTS]
    assert [pair for pair in zip(found, wanted, strict=True) if pair[0] != pair[1]] == []
    entries = vocabtool.extract(tmp_path)
    assert [entries.id_of(token) for token in entries] == library.convert_tokens_to_ids([*entries])


def test_a_file_of_entries_beside_a_tokenizer_json(tmp_path: Path) -> None:
    """Hubs keep both forms. Whoever names the older one gets its words."""
    of_openai(tmp_path)
    alone = [ids(Words.of(tmp_path / "encoder.json"), text) for text in TEXTS]
    of_bert(True)(tmp_path)
    (tmp_path / CONFIG).unlink()
    assert [ids(Words.of(tmp_path / "encoder.json"), text) for text in TEXTS] == alone


FOLDERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "settings": (
        lowered,
        "files used: tokenizer.json with modules.json, tokenizer_config.json, "
        "sentence_bert_config.json; left alone: vocab.txt",
    ),
    "Marian": (
        marian,
        "files used: vocab.json with source.spm, tokenizer_config.json; left alone: target.spm, "
        "vocab.txt",
    ),
    "one file": (of_openai, "files used: encoder.json with vocab.bpe; left alone: vocab.txt"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_files_that_are_told(name: str, tmp_path: Path) -> None:
    """``inspect`` and ``words`` name the files that were used, and those that were left alone."""
    build, note = FOLDERS[name]
    build(tmp_path)
    (tmp_path / "vocab.txt").write_text("[UNK]\nthe\n##s\n", "utf-8")
    if name == "settings":
        write_json(tmp_path / "modules.json", [])
    result = CliRunner().invoke(cli, ["inspect", str(tmp_path), "--format", "json"])
    assert note in json.loads(result.stdout)["vocabularies"][0]["notes"]
    result = CliRunner().invoke(cli, ["words", str(tmp_path), "the", "--format", "json"])
    assert note in json.loads(result.stdout)["notes"]


def test_yaml_of_marian(tmp_path: Path) -> None:
    """The ids of Marian's own vocab.yml are those of the vocab.json that transformers makes."""
    marian(tmp_path)
    text = "Hello world, naïve 漢字 and the rest"
    wanted = ids(Words.of(tmp_path), text)
    numbers = json.loads((tmp_path / "vocab.json").read_text("utf-8"))
    (tmp_path / "vocab.json").unlink()
    lines = [
        f"{json.dumps(entry, ensure_ascii=False)}: {number}" for entry, number in numbers.items()
    ]
    file = tmp_path / "opus.vocab.yml"
    file.write_text("\n".join(lines), "utf-8")
    words = Words.of(tmp_path)
    assert (ids(words, text), words.how) == (wanted, "recovered")
    assert {entry: words.vocabulary.id_of(entry) for entry in words.vocabulary} == numbers
    file.write_text("\n".join([*lines, "other: [1, 2]"]), "utf-8")
    with pytest.raises(UnsupportedFormat, match="other YAML is not read"):
        Words.of(tmp_path)  # not the pieces of the target


def test_entries_of_marian_by_name(tmp_path: Path) -> None:
    """Whoever names vocab.json gets the words of the folder."""
    marian(tmp_path)
    folder, file = Words.of(tmp_path), Words.of(tmp_path / "vocab.json")
    assert file.split(TEXTS) == folder.split(TEXTS)


@pytest.mark.parametrize("name", ["0_WordEmbeddings", "0_StaticEmbedding"])
@pytest.mark.parametrize("whole", [True, False])
def test_the_folder_of_a_module_has_no_links(name: str, whole: bool, tmp_path: Path) -> None:
    """A link in a model, of a folder or a file, must not have other files read as its words."""
    model, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    model.mkdir()
    elsewhere.mkdir()
    stop_words = {"stop_words": [], "do_lower_case": False}
    write_json(elsewhere / "whitespacetokenizer_config.json", {"vocab": ["a"], **stop_words})
    write_json(elsewhere / "tokenizer.json", {"model": {"type": "WordLevel", "vocab": {"a": 0}}})
    (elsewhere / "model.safetensors").write_bytes(bytes(9))
    kind = f"sentence_transformers.models.{name[2:]}"
    write_json(model / "modules.json", [{"idx": 0, "name": "0", "path": name, "type": kind}])
    if whole:
        (model / name).symlink_to(elsewhere)
    else:
        (model / name).mkdir()
        for file in elsewhere.iterdir():
            (model / name / file.name).symlink_to(file)
    with pytest.raises(VocabtoolError, match=r"symbolic link|no vocabulary in it"):
        vocabtool.inspect(model)


STOP = ("the", "of", "And", "'s", "a", "--")
ENTRIES = ("PADDING_TOKEN", "the", "queen", "King", "king", "don't", "U.S.", "naïve", "café,", "x")
SENTENCES = (
    "The queen, THE KING! (king) King. of the U.S. U.S.?",
    "  don't\u00a0'don't' Naïve café, CAFÉ \x1c x -- a. And and\u2003the's 's ",
    "",
    "PADDING_TOKEN padding_token unknown! ### x-x",
    "İstanbul ẞ ΑΣ",
)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("where", ["0_WordEmbeddings", ""])
def test_word_embeddings(lower: bool, where: str, tmp_path: Path) -> None:
    """Entries, stop words and lower-casing of sentence-transformers' averaged word vectors."""
    pytest.importorskip("sentence_transformers", reason="the owner of these folders")
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

    library = WhitespaceTokenizer(ENTRIES, STOP, lower)
    folder = tmp_path / where
    folder.mkdir(exist_ok=True)
    library.save(str(folder))
    name = "sentence_transformers.models.WordEmbeddings"
    module = {"idx": 0, "name": "0", "path": where, "type": name}
    write_json(tmp_path / "modules.json", [module])
    for model in {tmp_path, folder, folder / "whitespacetokenizer_config.json"}:
        words = Words.of(model)
        assert [*words.vocabulary] == list(ENTRIES)
        assert words.how == "recovered"
        for text in SENTENCES:
            found = [word["id"] for word in words.split([text]).to_pylist()[0] if word["known"]]
            assert found == library.tokenize(text)
    assert Words.of(tmp_path).unknown(SENTENCES[3]) == (
        ["padding_token", "padding_token", "unknown", "x-x"]
        if lower
        else ["padding_token", "unknown", "x-x"]
    )


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"ngram_separator": "_", "max_ngram_length": 5}, "a PhraseTokenizer of sentence-trans"),
        ({"stop_words": [1]}, "stop_words is not a list of texts"),
        ({"do_lower_case": 1}, "do_lower_case is not true or false"),
    ],
)
def test_other_word_embeddings(document: dict[str, Any], message: str, tmp_path: Path) -> None:
    usual = {"vocab": ["a"], "stop_words": [], "do_lower_case": True}
    write_json(tmp_path / "whitespacetokenizer_config.json", {**usual, **document})
    with pytest.raises(VocabtoolError, match=message):
        vocabtool.inspect(tmp_path / "whitespacetokenizer_config.json")


@pytest.mark.parametrize("name", ["vocab.txt", "vocab.json"])
def test_other_settings(name: str, tmp_path: Path) -> None:
    """A class that is not known and settings that are none are refused; a rule may be named."""
    build, beside = of_entries() if name == "vocab.txt" else of_pairs(GPT2), tmp_path / CONFIG
    build(tmp_path)
    write_json(beside, {"tokenizer_class": "NewTokenizer"})
    with pytest.raises(UnsupportedFormat, match=rf"{name}.*NewTokenizer"):
        Words.of(tmp_path / name)
    write_json(beside, ["do_lower_case"])
    with pytest.raises(InvalidFile, match=r"tokenizer_config\.json is a list"):
        Words.of(tmp_path / name)
    beside.unlink()
    if name == "vocab.json":
        assert Words.of(tmp_path / name).how == "recovered"
        return
    with pytest.raises(VocabtoolError, match="--rule bert-uncased or --rule bert-cased"):
        Words.of(tmp_path / name)
    for rule, lower in {"bert-uncased": True, "bert-cased": False}.items():
        of_entries(do_lower_case=lower)(tmp_path)
        recovered, named = Words.of(tmp_path), Words.of(tmp_path / name, rule=rule)
        assert (named.how, named.split(HARD)) == ("named", recovered.split(HARD))


def test_unknown_numbering_is_refused(tmp_path: Path) -> None:
    """Classes that number pieces in a way of their own get no words with wrong ids."""
    of_pieces("sentencepiece.bpe.model", "MBart50Tokenizer")(tmp_path)
    with pytest.raises(UnsupportedFormat, match=r"MBart50Tokenizer.*--rule tokenizer:FILE"):
        Words.of(tmp_path)
    assert "MBart50Tokenizer" in vocabtool.inspect(tmp_path).warnings[0]
