"""The judge of one reading of a model: its rule and the table, or the tokenizer that it ends in."""

from __future__ import annotations

from typing import Final

from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.errors import reading as reading_file
from vocabtool.formats.saved_model import tensors, tokenizers
from vocabtool.formats.saved_model.tensors import DT_BOOL, INTEGERS
from vocabtool.tokenization.bert import BertSplit
from vocabtool.tokenization.lookup import RuleTokenizer, TableLexicon, Tokenizer, WordPieceLexicon
from vocabtool.tokenization.lookup_paths import LookupPath, understood
from vocabtool.tokenization.lookup_sites import LookupKind, LookupSite, maker_of
from vocabtool.tokenization.rule import Rule
from vocabtool.tokenization.sentencepiece_judge import SentencePieceTokenizer
from vocabtool.tokenization.sentencepieces import SentencePieces
from vocabtool.tokenization.wordpiece import WordPiece, read_fast_wordpiece
from vocabtool.vocabulary import Vocabulary, printable

UNDERSTOOD: Final[frozenset[LookupKind]] = frozenset(
    ("table", "wordpiece", "fast wordpiece", "sentencepiece")
)


def tokenizer_for(reading: LookupPath) -> Tokenizer:
    """What cuts texts and looks words up as a reading does.

    Raises :class:`VocabtoolError` where its rule, or the tokenizer, is not understood.
    """
    rule, site = understood(reading), reading.sites[0]
    match site.kind:
        case "table":
            return RuleTokenizer(rule, TableLexicon(reading.vocabulary))
        case "wordpiece":
            lexicon = WordPieceLexicon(reading.vocabulary, _wordpiece(site, reading.vocabulary))
            return RuleTokenizer(rule, lexicon)
        case "fast wordpiece":
            return _fast_wordpiece(reading, rule, site)
        case "sentencepiece":
            return SentencePieceTokenizer(rule, sentencepieces_of(reading), reading.vocabulary)
        case _:
            raise VocabtoolError(
                f"{reading.vocabulary.name}: what the op {printable(site.node.op)} does is not "
                "understood. Exact words need TensorFlow: pip install '.[tensorflow]' "
                "and ask for --exact-words"
            )


def is_understood(reading: LookupPath) -> bool:
    """Whether :func:`tokenizer_for` knows how texts are cut, and what cuts words into pieces."""
    return isinstance(reading.rule, Rule) and reading.sites[0].kind in UNDERSTOOD


def _ids(vocabulary: Vocabulary) -> dict[bytes, int]:
    return dict(zip(vocabulary.stored, vocabulary.id_array().tolist(), strict=True))


def _wordpiece(site: LookupSite, vocabulary: Vocabulary) -> WordPiece:
    """As the attributes of WordpieceTokenizeWithOffsets say."""
    node = site.node
    return WordPiece(
        _ids(vocabulary),
        suffix_indicator=node.bytes_of(b"suffix_indicator"),
        max_bytes_per_word=node.integer_of(b"max_bytes_per_word"),
        max_chars_per_token=node.integer_of(b"max_chars_per_token"),
        unknown_token=(
            node.bytes_of(b"unknown_token") if node.integer_of(b"use_unknown_token") else None
        ),
        split_unknown_characters=bool(node.integer_of(b"split_unknown_characters")),
        unknown_id=vocabulary.unknown.id if vocabulary.unknown is not None else -1,
    )


def _fast_wordpiece(reading: LookupPath, rule: Rule, site: LookupSite) -> Tokenizer:
    """As the flatbuffer of FastWordpieceTokenizeWithOffsets says, which may cut texts, too."""
    with reading_file(reading.vocabulary.name):
        buffer = tokenizers.buffer_of(reading.linker, site.body, site.node)
        wordpiece, end_to_end = read_fast_wordpiece(buffer)
    if wordpiece.max_bytes_per_word < 1:
        raise InvalidFile(f"words of at most {wordpiece.max_bytes_per_word} bytes")
    steps = (*rule.steps, BertSplit()) if end_to_end else rule.steps
    return RuleTokenizer(Rule(steps), WordPieceLexicon(reading.vocabulary, wordpiece))


def sentencepieces_of(reading: LookupPath) -> SentencePieces:
    """The tokenizer of a SentencepieceTokenizeOp.

    Raises :class:`VocabtoolError` where it draws lots between several ways to cut.
    """
    site = reading.sites[0]
    maker = maker_of(reading.linker, site.body, site.node.data_input(0))
    if maker is None:
        raise VocabtoolError(f"{reading.vocabulary.name}: its SentencePiece model is not found")
    nbest, bos, eos, reverse = (_constant(reading, site, i) for i in (2, 4, 5, 6))
    if nbest not in (0, 1):
        raise VocabtoolError(
            f"{reading.vocabulary.name}: the model draws lots between ways to cut a text "
            f"(nbest_size {nbest}): its words differ from run to run"
        )
    _, node = maker
    return SentencePieces(node.bytes_of(b"model"), bool(bos), bool(eos), bool(reverse))


def _constant(reading: LookupPath, site: LookupSite, position: int) -> int | None:
    """An integer or bool that the op takes as a constant."""
    origin = reading.linker.origin(site.body, site.node.data_input(position))
    tensor = origin.node.tensor_of(b"value") if origin is not None and origin.node else None
    if tensor is None or tensor.elements != 1:
        return None
    if tensor.dtype == DT_BOOL:
        return int(tensors.boolean(tensor))
    return int(tensors.integers(tensor)[0]) if tensor.dtype in INTEGERS else None
