"""Files of people who reported what went wrong: their cases, where these are there."""

from __future__ import annotations

from pathlib import Path

import pytest

import vocabtool
from vocabtool import UnsupportedFormat, Words

ENTRIES: dict[str, list[str]] = {
    "05-keras-hub-bpe-in-keras-archive/bpe_small.keras": [
        *("h", "e", "l", "o", "he", "ll", "hell", "hello", "Ġw"),
    ],
    "06-marian-vocab-yml/marian_vocab.yml": ["</s>", "<unk>", "▁the", "▁,", "▁of", '"'],
    "06-marian-vocab-yml/marian_q.yml": ["</s>", "<unk>", "▁the", "▁of"],
    "20-st-word-embeddings/st_we": ["PADDING_TOKEN", "the", "of", "queen", "king"],
    "22-sherpa-tokens-space/sherpa_tokens.txt": ["<blk>", "<sos/eos>", "<unk>", "▁THE", "S", " "],
    "29-right-word2vec-save-vocab/w2v_vocab.txt": ["</s>", "the", "café", "of"],
}
KNOWN: dict[str, tuple[str, list[str], list[str]]] = {  # a text, its words, and the unknown ones
    "18-gguf-huggingface-json/hfjson.gguf": ("The QUICK zzz", ["the", "quick", "zzz"], ["zzz"]),
    "19-keras-textvectorization-rule/ngrams2.keras": (
        *("Foo, foo", ["foo", "foo", "foo foo"], ["foo foo"]),
    ),
    "19-keras-textvectorization-rule/char.keras": ("A-b", ["a", "b"], []),
    "19-keras-textvectorization-rule/nostd.keras": ("A-b c", ["A-b", "c"], ["A-b", "c"]),
    "20-st-word-embeddings/st_we": ("The QUEEN, of zzz!", ["queen", "zzz"], ["zzz"]),
}
REFUSED = {
    "07-floret-spacy-all-unknown/floret": "floret vectors",
    "23-csv-hunspell-arpa/csv_vocab.csv": "CSV",
    "23-csv-hunspell-arpa/hunspell.dic": "Hunspell",
    "23-csv-hunspell-arpa/arpa.arpa": "ARPA",
}
COUNTS = {
    "26-right-glove-840b-spaces/spaces.txt": 11,
    "27-right-space-as-word/empty_word.txt": 7,
    "27-right-space-as-word/space_word.txt": 7,
    "28-right-word2vec-bin-latin1/latin.bin": 3,
    "28-right-word2vec-bin-latin1/nonl.bin": 6,
}


def found(shared: Path, case: str) -> Path:
    path = shared / "cases/formats" / case
    if not path.exists():
        pytest.skip(f"no case {case} in {shared}")
    return path


@pytest.mark.parametrize("case", ENTRIES)
def test_entries(case: str, shared: Path) -> None:
    vocabulary = vocabtool.extract(found(shared, case))
    assert [*vocabulary] == ENTRIES[case]
    assert vocabulary.id_array().tolist() == list(range(len(vocabulary)))


@pytest.mark.parametrize("case", KNOWN)
def test_words(case: str, shared: Path) -> None:
    text, wanted, unknown = KNOWN[case]
    words = Words.of(found(shared, case))
    assert [word["word"].decode() for word in words.split([text]).to_pylist()[0]] == wanted
    assert (words.unknown(text), words.how) == (unknown, "recovered")


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, shared: Path) -> None:
    with pytest.raises(UnsupportedFormat, match=REFUSED[case]):
        vocabtool.inspect(found(shared, case))


@pytest.mark.parametrize("case", COUNTS)
def test_vectors(case: str, shared: Path) -> None:
    vocabulary = vocabtool.extract(found(shared, case))
    assert (len(vocabulary), vocabulary.kind) == (COUNTS[case], "vectors")
