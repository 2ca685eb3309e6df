"""Build ``data/small_glove.txt``, a small file of word vectors in GloVe's format.

    python data/make_vocabularies.py [FOLDER]

Needs only Python. The words are those of the lists below and words generated from them: plurals,
verb forms, numbers, dates. They are in the order of their likely frequency in newspapers, the most
frequent first; the vectors have no meaning. README.md describes the purpose of the file.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

DIMENSIONS: Final = 4

# Function words and punctuation; each paragraph is one kind.
SMALL_WORDS: Final = """
the a an this that these those each every some any no all both either neither such same other

. , " ' ( ) : ; - -- '' `` 's n't 're 'll 've 'd $ _

of in to for on with at by from into about over under after before between against without during
through across along around behind beside beyond above below near inside outside toward upon until

and or but if when because while although whether unless since as than so yet nor though

he it they i we you she him them me us her his its their our my your who what which whose mine yours
hers ours theirs himself itself themselves myself yourself herself ourselves everyone something
anything nothing nobody everybody somebody anyone everything one ones

is was be are were been being am has have had having do does did done will would can could may might
must should shall

not more also now then there here only just even still again too very most much many few often never
always well out up down off back away how why where once soon already almost perhaps maybe quite
rather together instead therefore thus hence indeed please yes oh hello thanks thank ok less ever
else twice sometimes ago today tomorrow yesterday

two three first second four five last next half six ten hundred million billion dozen percent

monday tuesday wednesday thursday friday saturday sunday
"""

# Irregular verbs with all forms.
IRREGULAR_VERBS: Final = """
say says saying; go goes going went gone; take takes taking took taken; come comes coming came;
see sees seeing saw seen; know knows knowing knew known; give gives giving gave given; find finds
finding found; think thinks thinking thought; tell tells telling; become becomes becoming became;
leave leaves leaving left; put puts putting; mean means meaning meant; keep keeps keeping kept;
let lets letting; begin begins beginning began begun; run runs running ran; hold holds holding
held; write writes writing wrote written; stand stands standing stood; lose loses losing lost; pay
pays paying paid; meet meets meeting met; lead leads leading led; speak speaks speaking spoke
spoken; read reads reading; spend spends spending spent; grow grows growing grew grown; win wins
winning won; teach teaches teaching taught; buy buys buying bought; send sends sending sent; build
builds building built; fall falls falling fell fallen; cut cuts cutting; sell sells selling sold;
eat eats eating ate eaten; drink drinks drinking drank drunk; sleep sleeps sleeping slept; break
breaks breaking broke broken; choose chooses choosing chose chosen; drive drives driving drove
driven; fly flies flying flew flown; draw draws drawing drew drawn; feel feels feeling felt; hear
hears hearing heard; sing sings singing sang sung; swim swims swimming swam; throw throws throwing
threw thrown; wear wears wearing wore worn; understand understands understanding understood; catch
catches catching caught; fight fights fighting fought; bring brings bringing brought; rise rises
rising rose risen; shoot shoots shooting shot; steal steals stealing stole stolen; forget forgets
forgetting forgot forgotten; format formats formatting formatted
"""

VERBS: Final = """
use want work call ask need seem help show play move live believe happen include continue change
watch follow stop open walk offer remember consider appear serve die expect stay reach remain
suggest raise pass require report decide return explain develop carry receive agree support kill
save vote sign close visit cook laugh cry jump dance travel announce accuse warn claim deny attack
defend protest arrest elect resign negotiate invade bomb score kick coach train race finish start
create allow add love hate enjoy marry learn study test check order deliver cancel refund repair
install update download upload search browse print scan click type copy delete store share post
reply answer complain argue discuss compare measure count define describe contain return assign
match loop parse compile execute handle import export sort index evaluate convert
"""

NOUNS: Final = """
year day week month hour minute time way thing man woman child person family friend mother father
brother sister son daughter life world country city town village street house home school student
teacher class book story word question answer problem place area part point side case fact idea
number group company business job work office market price money bank tax budget trade economy
dollar euro government president minister leader party election law court judge police officer
crime prison war army soldier attack weapon bomb peace treaty border refugee state nation region
north south east west island river mountain sea ocean forest weather storm rain snow wind flood
earthquake fire sun moon star planet earth sky animal dog cat horse bird fish tree flower garden
farm food water bread milk meat rice fruit apple banana egg sugar salt coffee tea beer wine dinner
kitchen restaurant hotel room door window wall floor table chair bed car bus train plane ship
bicycle road bridge airport station ticket passenger driver pilot team game match player coach
goal season league cup final score record champion race stadium fan medal music song band singer
concert film movie actor director theater artist painting museum picture photo camera television
radio newspaper magazine reporter editor news internet web website computer phone software program
data file system network machine engine user password email message letter text language sentence
paragraph character digit string list object value method function module exception statement
expression attribute argument variable operator sequence instance type name error code key loop
doctor nurse hospital patient disease cancer virus vaccine drug medicine heart brain blood hand
head eye face body foot arm leg skin hair health science scientist study research university
professor experiment theory result energy power oil gas coal nuclear plant factory worker union
strike wage product customer shop store brand sale stock share investor profit loss debt loan
mortgage rent building church mosque temple priest religion god prayer culture tradition festival
holiday christmas birthday wedding marriage party funeral death birth age youth adult girl boy
baby clothes shirt shoe dress hat coat color size shape weight height length distance speed
temperature degree percent share level rate average total amount cost umbrella piano guitar violin
kettle sparrow pigeon cheese lemon onion potato tomato mushroom cinnamon blanket pillow mattress
cigarette thief lawyer farmer baker carpenter plumber librarian library novel poem dictionary
summer winter autumn spring morning evening night line version example list note set page
documentation map mile meter kilometer gram liter cent penny wallet bag box bottle glass plate
spoon fork pen pencil paper desk lamp candle mirror clock battery keyboard screen cable garage
roof chimney fence gate pirate penguin elephant lion tiger wolf bear fox rabbit duck goose eagle
owl snake frog spider bee ant butterfly volcano desert valley lake beach wave cliff uncle aunt
cousin neighbor guest king queen prince princess castle knight sword crown
"""

IRREGULAR_NOUNS: Final = """
people men women children feet teeth mice lives wives knives leaves thieves potatoes tomatoes
geese pennies wolves
"""

# Nouns above without a plural, or with an irregular one.
NO_PLURAL: Final = """
man woman child person foot life thief potato tomato news clothes money police weather peace data
software music health internet bread milk meat rice sugar salt blood coal youth research nuclear
goose penny wolf christmas north south east west earth
"""

GRADED: Final = """
old young new great small large high low long short big strong weak rich poor hard soft warm cold
hot cool fast slow clean dark light bright deep wide near late early cheap fair clear loud quiet
sweet fresh sharp safe
"""

ADJECTIVES: Final = """
good better best bad worse worst political public economic social local foreign military federal
private national central general common special major minor recent current possible real full free
open available whole true human dead nuclear legal medical financial religious popular powerful
successful dangerous serious famous beautiful terrible wonderful delicious lovely rude polite
angry happy sad proud afraid tired hungry thirsty sick healthy empty busy lazy strange familiar
natural digital electric modern ancient daily weekly annual northern southern eastern western
global regular normal usual different similar equal important necessary impossible likely certain
sure red blue green yellow black white grey brown orange purple pink
"""

NAMES: Final = """
january february march april june july august september october november december america britain
france germany russia japan india israel iraq iran italy spain canada mexico brazil australia
africa europe asia korea turkey egypt poland ukraine greece sweden norway finland denmark portugal
ireland london paris berlin moscow tokyo washington york chicago boston madrid rome athens vienna
lisbon dublin oslo helsinki reykjavik warsaw prague budapest kiev istanbul cairo beijing shanghai
delhi mumbai seoul sydney toronto venice naples lagos nairobi lima american british french german
russian japanese chinese indian italian spanish canadian korean turkish greek polish swedish
finnish english arabic hebrew latin muslim christian jewish catholic john james mary anna peter
paul george david michael robert william thomas maria elena ivan yuki fatima
"""

COMPOUNDS: Final = """
well-known long-term short-term full-time part-time year-old year-end so-called high-tech low-cost
co-founder ex-wife mid-day self-defense old-fashioned world-class must-see check-in follow-up
e-mail x-ray t-shirt anti-war pro-government non-profit all-star left-handed right-wing
state-owned o'clock o'neill rock'n'roll mother-in-law forget-me-not state-of-the-art
jack-in-the-box
"""

TRACES_OF_THE_WEB: Final = """
http www .com .org html href e.g. i.e. etc. u.k. u.n. a.m. p.m. mr. mrs. dr. st. no. vs. jr. inc.
co. www.example.com info@example.com #news @editor _____ :) ;-) <3 lol b2b mp3 mp4 h2o co2
covid-19 f-16 g7 g20 9/11 24/7 7-eleven a4 b-52 y2k 3d 4x4 60-year-old 10-year 2-day 100-meter
19th-century
"""

SIGNS: Final = """
... .. ! ? !! ?! ; [ ] { } / \\ | * & % # @ + = < > ~ ^ ° § © ® ™ € £ ¥ ¢ – — ’ ‘ “ ” « » • … → ×
÷
"""  # noqa: RUF001 - words of other scripts look alike

WITH_ACCENTS: Final = """
café naïve résumé fiancé façade déjà señor niño são münchen zürich köln straße über ångström
smörgåsbord malmö århus reykjavík łódź kraków škoda čapek ħamrun dvořák brontë exposé jalapeño
piñata crème brûlée
"""

# Characters that NFKC replaces: ligatures, fractions and other numbers.
COMPATIBILITY: Final = "ﬁnd ﬁle ﬁrst ﬂow eﬀect ½ ¼ ² ³ № ① ② ㎏ Ⅳ"
FULL_WIDTH: Final = "error text list 20 100"  # converted to full-width characters
FULL_WIDTH_SIGNS: Final = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}

OTHER_SCRIPTS: Final = """
и в не на что он как это по но россия москва день год вода дом книга слово язык мир война люди друг
και το να του που είναι αθήνα ελλάδα νερό σπίτι βιβλίο λέξη γλώσσα ημέρα φίλος
في من على أن هذا مصر القاهرة ماء بيت كتاب كلمة لغة يوم صديق سلام
של את על הוא ירושלים מים בית ספר מילה שפה יום חבר שלום
में है और का के भारत दिल्ली पानी घर किताब शब्द भाषा दिन मित्र
的 是 在 了 和 中国 北京 水 家 书 词 语言 天 朋友 上海 人民 新闻 天气
の に は を こと 日本 東京 ことば ほん いえ みず ともだち カメラ テレビ コーヒー ニュース
이 는 한국 서울 물 집 책 말 날 친구 뉴스 사랑 น้ำ บ้าน หนังสือ ภาษา วัน
თბილისი წიგნი წყალი երեւան ջուր ἄνθρωπος
"""  # noqa: RUF001 - words of other scripts look alike

WITH_BLANKS: Final = (". . .", "new york", "Los Angeles")  # such entries exist in real files
LAST: Final = "<unk>"


class Placed(NamedTuple):
    """A word and its assumed frequency rank."""

    place: int
    word: str


def placed(words: str | Iterable[str], first: int, step: int) -> Iterator[Placed]:
    """Yield words with ranks: ``first``, ``first + step``, ``first + 2 * step``, ..."""
    listed = words.split() if isinstance(words, str) else words
    for i, word in enumerate(listed):
        yield Placed(first + i * step, word)


def small_words() -> Iterator[Placed]:
    """Yield the small words; ranks grow quadratically within each kind."""
    for first, kind in enumerate(SMALL_WORDS.split("\n\n"), 1):
        for i, word in enumerate(kind.split()):
            yield Placed(first + i * (i + 6), word)


def short(stem: str) -> bool:
    """Whether the last letter is doubled before an ending: ``stop``, ``stopping``."""
    vowels = [letter in "aeiou" for letter in stem]
    return sum(vowels) == 1 and vowels[-2:] == [True, False] and stem[-1] not in "wxy"


def with_s(stem: str) -> str:
    """Return the plural of a noun, or the third person of a verb."""
    if stem.endswith("y") and stem[-2] not in "aeiou":
        return f"{stem[:-1]}ies"
    return stem + ("es" if stem.endswith(("s", "x", "z", "ch", "sh")) else "s")


def with_vowel(stem: str, ending: str) -> str:
    """Return a stem with the ending ``ed``, ``er``, ``est`` or ``ing``."""
    if stem.endswith("ie") and ending == "ing":
        return f"{stem[:-2]}ying"
    if stem.endswith("y") and stem[-2] not in "aeiou" and ending != "ing":
        return f"{stem[:-1]}i{ending}"
    if stem.endswith("e") and not (stem.endswith("ee") and ending == "ing"):
        return stem[:-1] + ending
    return stem + stem[-1] * short(stem) + ending


def verb_forms() -> Iterator[Placed]:
    """Yield verbs and their forms, which are rarer than the verb."""
    for place, verb in placed(VERBS, 80, 16):
        yield Placed(place, verb)
        yield Placed(place * 3 // 2 + 40, with_vowel(verb, "ed"))
        yield Placed(place * 2 + 80, with_vowel(verb, "ing"))
        yield Placed(place * 3 + 200, with_s(verb))
    for i, forms in enumerate(IRREGULAR_VERBS.split(";")):
        yield from placed(forms, 70 + 25 * i, 90)


def noun_forms() -> Iterator[Placed]:
    """Yield nouns and their plurals."""
    no_plural = set(NO_PLURAL.split())
    for place, noun in placed(NOUNS, 60, 5):
        yield Placed(place, noun)
        if noun not in no_plural:
            yield Placed(place * 2 + 60, with_s(noun))
    yield from placed(IRREGULAR_NOUNS, 120, 90)


def adjective_forms() -> Iterator[Placed]:
    """Yield adjectives with comparatives, superlatives and adverbs."""
    for place, adjective in placed(GRADED, 70, 20):
        yield Placed(place, adjective)
        yield Placed(place * 2 + 100, with_vowel(adjective, "er"))
        yield Placed(place * 3 + 200, with_vowel(adjective, "est"))
    for place, adjective in placed(ADJECTIVES, 110, 14):
        yield Placed(place, adjective)
        if adjective.endswith(("al", "ous", "ent")):
            yield Placed(place * 2 + 300, f"{adjective}ly")


def numbers() -> Iterator[Placed]:
    """Yield numbers as in newspapers: years, results, prices, times of day."""
    yield from placed((str(number) for number in range(101)), 120, 18)
    yield from placed((str(year) for year in range(2026, 1899, -1)), 180, 25)
    yield from placed((f"{decade}s" for decade in range(2010, 1890, -10)), 600, 90)
    yield from placed((f"{n}th" for n in (*range(4, 21), 50, 100)), 500, 70)
    yield from placed("1st 2nd 3rd 21st 22nd 101st", 500, 80)
    yield from placed((f"{n},000" for n in (1, *range(2, 10), *range(10, 100, 10))), 400, 60)
    yield from placed((f"{n // 10}.{n % 10}" for n in range(1, 100)), 500, 30)
    yield from placed((f"{n // 10}.{n % 10}" for n in range(2879, 9999, 173)), 1500, 50)
    yield from placed((f"{n // 100}.{n % 100:02d}" for n in range(99, 9999, 300)), 1300, 70)
    yield from placed(
        (f"{hour}:{m:02d}" for hour, m in product(range(1, 13), (0, 15, 30))), 700, 60
    )
    yield from placed((f"{one}-{two}" for one in range(7) for two in range(one + 1)), 450, 60)
    yield from placed((f"{n}-{n + 1}" for n in range(2020, 1985, -1)), 1600, 70)
    yield from placed((f"2024-{month:02d}-{3 * month:02d}" for month in range(1, 10)), 2500, 100)
    yield from placed("1/2 1/4 3/4 2/3 555-0123 1-800 +1 -1 -40 3.14159 0.001 10,000,000", 900, 110)


def every_word() -> Iterator[Placed]:
    """Yield all words; some occur more than once."""
    yield from small_words()
    yield from verb_forms()
    yield from noun_forms()
    yield from adjective_forms()
    yield from numbers()
    yield from placed(NAMES, 130, 14)
    yield from placed(COMPOUNDS, 900, 70)
    yield from placed(TRACES_OF_THE_WEB, 400, 40)
    yield from placed(SIGNS, 60, 45)
    yield from placed(WITH_ACCENTS, 1500, 60)
    yield from placed(COMPATIBILITY, 3000, 60)
    yield from placed(FULL_WIDTH.translate(FULL_WIDTH_SIGNS), 3500, 60)
    yield from placed(OTHER_SCRIPTS, 1900, 12)
    yield from placed(WITH_BLANKS, 1800, 400)


def vocabulary() -> list[str]:
    """Return the words by rank, ties in alphabetical order, and the unknown word last."""
    best: dict[str, int] = {}
    for place, word in every_word():
        best[word] = min(place, best.get(word, place))
    return [*sorted(best, key=lambda word: (best[word], word)), LAST]


def vector(word: str) -> str:
    """Return ``DIMENSIONS`` numbers from -1 to 1 that depend only on the word."""
    digest = hashlib.sha256(word.encode()).digest()
    thousandths = (int.from_bytes(digest[2 * i : 2 * i + 2]) % 2001 for i in range(DIMENSIONS))
    return " ".join(f"{(value - 1000) / 1000:.3f}" for value in thousandths)


def main() -> None:
    """Write the file and print its size."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent
    words = vocabulary()
    lines = "".join(f"{word} {vector(word)}\n" for word in words)
    (folder / "small_glove.txt").write_bytes(lines.encode())
    print(f"{len(words):,} words, {len(lines.encode()):,} bytes")


if __name__ == "__main__":
    main()
