"""Words that a search must find: accents, widths, digits, joined words, Han, kana and Hangul."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from math import log2
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.cli.running import output
from vocabtool import Index

# Words of each language of the stemmer. Those without accents of their own have borrowed ones.
WORDS: Final[dict[str, str]] = {
    "arabic": "كِتَاب مُحَمَّد عَرَبِيَّة سَلَام",
    "armenian": "café Beyoncé",
    "basque": "ñabar piñudi café",
    "catalan": "informació català dilluns àvia però més nació",
    "czech": "příliš žluťoučký kůň město země škola dělat",
    "danish": "smørrebrød på æble også København høj året",
    "dutch": "één coördinatie ideeën café reünie privé",
    "dutch_porter": "één coördinatie ideeën café reünie privé",
    "english": "résumé cliché Beyoncé naïve café façade rosé fiancée Zoë",
    "esperanto": "ĉevalo ĝardeno ŝipo antaŭ ĵurnalo",
    "estonian": "päev öö sõna küsimus žanr väike",
    "finnish": "päivä yö hyvää sähköposti äiti työ",
    "french": "déjà énergie mangé système français élève forêt où noël été",
    "german": "Café André Häuser größer Straße Tür schön München Übung",
    "greek": "άνθρωπος ανθρώπου μουσική Αθήνα παιδιά καλημέρα",
    "hindi": "ज़रूर क़लम फ़िल्म सड़क पढ़ना",
    "hungarian": "kávé könyv kávéházban szép őszi tűz nagyapám húsvét",
    "indonesian": "café résumé Beyoncé",
    "irish": "Éire fáilte ceol sláinte bóthar gaeilgeoirí",
    "italian": "verità città perché caffè così università lunedì",
    "lithuanian": "ąžuolas žmogus šuo ėjo mūsų vėl gražus",
    "nepali": "ज़रूर फ़िल्म",
    "norwegian": "på ære økonomi språk først år bønder",
    "persian": "کِتاب مُدیر",
    "polish": "łódź żółty źródło świat mężczyzna być książki",
    "porter": "résumé cliché Beyoncé naïve",
    "portuguese": "não informação você também português corações avó",
    "romanian": "și țară împărat București făcut învățător",
    "russian": "красный чай ёлка йод синий ещё майка русский",
    "serbian": "ćevapi škola žena đak čovek ћирилица",
    "sesotho": "café mošate",
    "spanish": "canción inglés mañana también pingüino árbol corazón niños",
    "swedish": "även för åka människor möjlighet språk",
    "tamil": "café Beyoncé",
    "turkish": "İstanbul güzel çocuk şehir ağaç ılık Türkçe görüşürüz",  # noqa: RUF001
    "yiddish": "אַלט קאָפּ ייִדיש",
    "none": "résumé café Łódź naïve",
}
NUKTA: Final = "\u093c"
LETTERS: Final = str.maketrans({"ł": "l", "ø": "o", "æ": "ae", "ß": "ss", "đ": "d", "\u0131": "i"})


def without_accents(word: str) -> str:
    """By the standard library: decomposed, without marks; of Devanagari only without nuktas."""
    apart = unicodedata.normalize("NFD", word.lower())
    bare = "".join(
        each
        for each in apart
        if not (each == NUKTA or (unicodedata.category(each) == "Mn" and each < "\u0900"))
    )
    return unicodedata.normalize("NFC", bare).translate(LETTERS)


def index_of(folder: Path, texts: Sequence[str], language: Any = "english") -> Index:
    """An index without vectors; the id of a text is its number."""
    index = Index.create(folder / "index", dim=1, language=language)
    with index.writer() as writer:
        rows = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
        writer.add(rows, np.zeros((len(texts), 1)))
    return index


def found(index: Index, query: str) -> list[int]:
    return [int(hit.id) for hit in index.search(query, k=1_000)]


def test_every_language_has_words_here() -> None:
    shown = " ".join(output("index", "--help").replace("│", " ").split())
    assert f"stop words: {', '.join(WORDS)} (no stems" in shown


@pytest.mark.parametrize("language", WORDS)
def test_accents_do_not_count(language: Any, tmp_path: Path) -> None:
    """Each spelling finds both, alone and in a phrase; one with accents finds its own first."""
    words = WORDS[language].split()
    texts = [spelling for word in words for spelling in (word, without_accents(word))]
    index = index_of(tmp_path, texts, language)
    for at, (accented, plain) in enumerate(zip(texts[::2], texts[1::2], strict=True)):
        both = {2 * at, 2 * at + 1}
        if accented.lower() == plain:
            continue
        assert both <= {*found(index, plain)}, plain
        assert both <= {*found(index, f'"{plain}"')}, plain
        assert both <= {*found(index, f'"{accented}"')}, accented
        hits = found(index, accented)
        assert both <= {*hits}, accented
        assert hits[0] == 2 * at, accented
        decomposed = unicodedata.normalize("NFD", accented)
        assert found(index, decomposed) == hits, accented


@pytest.mark.parametrize(
    ("language", "query", "form"),
    [
        ("russian", "красный", "красного"),
        ("hungarian", "kávéház", "kávéházban"),
        ("french", "énergie", "énergies"),
        ("german", "Häuser", "Haus"),
        ("portuguese", "informação", "informações"),
        ("spanish", "inglés", "ingleses"),
    ],
)
def test_forms_of_a_word_with_accents_meet(
    language: Any, query: str, form: str, tmp_path: Path
) -> None:
    """As without accents; and ``-`` and ``OR`` mean all of them."""
    index = index_of(tmp_path, [form, "xyz", f"xyz {query}"], language)
    assert {*found(index, query)} == {0, 2}
    assert {*found(index, form)} == {0, 2}
    assert found(index, f"xyz -{query}") == [1]
    assert {*found(index, f"{query} OR abc")} == {0, 2}


DECOMPOSED: Final = unicodedata.normalize("NFD", "がぎぐ")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("がぎぐ", DECOMPOSED),
        ("ガラス", "ｶﾞﾗｽ"),
        ("パーティー", "ﾊﾟｰﾃｨｰ"),
        ("あ゙い", "あ\u3099い"),
        ("한국어", unicodedata.normalize("NFD", "한국어")),
        ("Việt", unicodedata.normalize("NFD", "Việt")),
        ("Å", "\u212b"),
        ("ΐδα", unicodedata.normalize("NFD", "ΐδα")),
        ("クラス", "\u30af\u200d\u30e9\u30b9"),
        ("SKU-48007-H", "ＳＫＵ－４８００７－Ｈ"),  # noqa: RUF001  # full width is what is tested
        ("parseHttpHeader", "ｐａｒｓｅＨｔｔｐＨｅａｄｅｒ"),  # noqa: RUF001
        ("葛城", "葛\U000e0100城"),
        ("العربية", "العربيــــة"),
        ("123", "١٢٣"),
        ("2024年", "２０２４年"),
        ("42", "४२"),
        ("co2", "co₂"),
        ("ক়খ", "কখ"),
        ("exam\u00adple", "example"),
        ("Straße ﬁne", "STRASSE fine"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
    ],
)
def test_equivalent_texts_are_one_word(one: str, other: str, tmp_path: Path) -> None:
    """Canonical forms, widths, digits and ignored characters; in phrases, and with equal scores."""
    index = index_of(tmp_path, [one, other, "xyz"], "none")
    for query in (one, other):
        assert {*found(index, query)} == {0, 1}
        assert {*found(index, f'"{query}"')} == {0, 1}
        scores = [hit.score for hit in index.search(query)]
        assert ("ক" in one) or scores[0] == pytest.approx(scores[1])
    assert {*found(index, f"＂{other}＂")} == {0, 1}  # noqa: RUF001


def test_a_zero_width_space_separates_words(tmp_path: Path) -> None:
    """As in UAX 29; other invisible characters separate nothing."""
    index = index_of(tmp_path, ["zero\u200bwidth", "zero\u200cwidth", "zero\u2060width"], "none")
    assert found(index, "width") == [0]
    assert {*found(index, "zerowidth")} == {1, 2}


# Spellings of one word.
SPELLINGS: Final = [
    *(("iphone15", "iPhone 15"), ("16GB", "16 GB"), ("covid19", "COVID-19"), ("gpt4", "GPT-4")),
    *(
        ("WIFI6", "Wi-Fi 6"),
        ("wifi", "Wi-Fi"),
        ("email", "e-mail"),
        ("emails", "e-mails"),
        ("USA", "U.S.A."),
    ),
    *(("h264", "H.264"), ("tcpip", "TCP/IP"), ("ATT", "AT&T"), ("nodejs", "node.js")),
    *(("b2b", "B-2-B"), ("r2d2", "R2-D2"), ("mp3", "MP 3"), ("3d", "3-D"), ("5G", "5 G")),
    *(("iphone15s", "iPhone 15s"), ("ps5pro", "PS5 Pro"), ("i7", "i 7"), ("utf8", "UTF-8")),
    *(("Größe42", "Größe 42"), ("münchen1", "München 1"), ("cooperate", "co\u2011operate")),
]
FILLER: Final = [f"a text of x{number}x about other matters" for number in range(30)]


@pytest.mark.parametrize(("joined", "apart"), SPELLINGS)
def test_spellings_of_a_joined_word_meet(joined: str, apart: str, tmp_path: Path) -> None:
    """Each finds the other, the form that was typed first, even in a longer text."""
    longer = "of {} and many more words that say nothing about it and make the whole text long"
    texts = [*map("the best {} now".format, (joined, apart)), *map(longer.format, (joined, apart))]
    index = index_of(tmp_path, [*texts, *FILLER])
    assert found(index, joined) == [0, 2, 1, 3]
    hits = found(index, apart)
    assert [hit for hit in hits if hit < 4] == [1, 3, 0, 2]
    assert hits[:2] == [1, 3]


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("2020年", "2020年の夏"),
        ("夏2020", "東京の夏2020年"),
        ("iPhoneを買う", "新しいiPhoneを買う人"),
        ("2대", "아이폰 2대를"),
        ("ไทย 東京", "ภาษาไทย 東京都"),
    ],
)
def test_a_phrase_ends_within_a_run(phrase: str, text: str, tmp_path: Path) -> None:
    """Of a script without spaces; a text with its characters elsewhere is not found."""
    index = index_of(tmp_path, [f"{text} xyz", f"{' '.join(reversed(text))} xyz"], "none")
    assert found(index, f'"{phrase}"') == [0]
    assert found(index, f'xyz -"{phrase}"') == [1]


def test_a_spelling_is_marked(tmp_path: Path) -> None:
    """Words in another spelling than in the query are marked as well."""
    index = index_of(tmp_path, ["our Wi-Fi is", "an iPhone 15 is"])
    for query, marked in (("wifi", ["Wi-Fi"]), ("iphone15", ["iPhone", "15"])):
        (hit,) = index.search(query, explain=True)
        assert hit.explanation is not None
        spans = hit.explanation.highlights
        assert [hit.text[span.start : span.end] for span in spans] == marked


def encode(texts: Sequence[str]) -> list[list[float]]:
    return [[text.count("p"), text.count("t")] for text in texts]


def test_words_that_nobody_wrote_leave_the_vector(tmp_path: Path) -> None:
    """If the words of the model cannot be read, a code in no text is no reason to give up."""
    index = Index.create(tmp_path / "index", model=encode)
    with index.writer() as writer:
        writer.add([{"id": "0", "text": "apple phone"}, {"id": "1", "text": "cat on a mat"}])
    for query in ("iphone15", "sku-4411-p", "foo_p"):
        assert found(index, query) == [0, 1]


# Small judged sets: texts, and for each query the texts that answer it.
CHINESE: Final = (
    """我的猫很可爱 狗和猫是朋友 我喜欢吃苹果 苹果公司发布新手机 上海是中国最大的城市
    北京大学的学生 他在海边看日落 我们学习中文 猫头鹰在夜里飞 手机的电池坏了
    大学里有图书馆 这本书很有意思 中国的首都是北京 天气很好""",
    {"猫": [0, 1, 8], "狗": [1], "书": [10, 11], "北京": [5, 12], "中国": [4, 12], "大学": [5, 10],
     "手机电池": [9, 3], "苹果手机": [3, 2, 9], "海": [4, 6]},
)  # fmt: skip  # a table
JAPANESE: Final = (
    """私の猫はかわいい 犬と猫がいる 東京に行きました 京都の寺を見た 本を読むのが好きです
    日本の首都は東京です 新しいカメラを買った ｶﾒﾗの電池が切れた 駅前の本屋 海で泳ぐ
    北海道の冬は寒い 電車が遅れた 電話をかける カメが歩く""",
    {"猫": [0, 1], "犬": [1], "本": [4, 5, 8], "東京": [2, 5], "京都": [3], "カメラ": [6, 7],
     "電池": [7], "海": [9, 10], "カメ": [13, 6, 7], "寺": [3]},
)  # fmt: skip  # a table
KOREAN: Final = (  # a stroke stands for a blank
    """서울은|한국의|수도이다 서울에서|기차를|탔다 부산까지|기차로|간다 책을|읽는다
    책이|많은|도서관 한국어를|배운다 학교에서|공부한다 학교는|멀다 고양이가|잔다
    고양이와|개 날씨가|좋다 도서관에|간다 서울역|앞|식당 개는|충성스럽다""",
    {"서울": [0, 1, 12], "기차": [1, 2], "책": [3, 4], "학교": [6, 7], "고양이": [8, 9],
     "개": [9, 13], "도서관": [4, 11], "한국": [0, 5], "서울 기차": [1, 0, 2, 12], "날씨": [10]},
)  # fmt: skip  # a table


@pytest.mark.parametrize(
    ("texts", "judged", "wanted"),
    [(*CHINESE, 1.0), (*JAPANESE, 1.0), (*KOREAN, 1.0)],
    ids=["Chinese", "Japanese", "Korean"],
)
def test_judged_sets(
    texts: str, judged: dict[str, list[int]], wanted: float, tmp_path: Path
) -> None:
    """NDCG@10 with one grade, by its formula; and every relevant text is found."""
    index = index_of(tmp_path, [text.replace("|", " ") for text in texts.split()], "none")
    values = []
    for query, relevant in judged.items():
        hits = found(index, query)[:10]
        assert {*relevant} <= {*hits}, query
        gain = sum(1 / log2(2 + rank) for rank, hit in enumerate(hits) if hit in relevant)
        values.append(gain / sum(1 / log2(2 + rank) for rank in range(len(relevant))))
    assert np.mean(values) == pytest.approx(wanted, abs=5e-5)
