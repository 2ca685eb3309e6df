"""Every way in which a model looks words up, and which of them a report is about.

A site (``sites.py``) joined to the way of its text (``recovery.py``) and to the vocabulary as
``inspect`` names it. Ways that are not understood are kept, with their reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from vocabtool.errors import NoVocabulary, VocabtoolError
from vocabtool.formats.model import Model
from vocabtool.formats.saved_model import graph_files
from vocabtool.formats.saved_model.linker import Linker
from vocabtool.formats.saved_model.meta_graph import pick_serving
from vocabtool.formats.saved_model.model import read_model, read_tables
from vocabtool.tokenization.infer_rule import NO_TEXTS, Unclear, recover
from vocabtool.tokenization.lookup_sites import LookupSite, find_lookup_sites
from vocabtool.tokenization.rule import Rule
from vocabtool.vocabulary import Vocabulary

# A lookup of what these ops give looks up pieces of words: the op itself is the site.
PIECES_OF: Final = ("WordpieceTokenizeWithOffsets",)


class LookupPath(NamedTuple):
    """One lookup of a model. ``rule``: how its words come from a text, or why that is not clear.

    ``sites``: the ops, several where a function is in the model more than once.
    """

    vocabulary: Vocabulary
    rule: Rule | Unclear
    text: str
    sites: tuple[LookupSite, ...]
    linker: Linker

    @property
    def ngrams(self) -> bool:
        """Whether the lookup gets n-grams."""
        return isinstance(self.rule, Rule) and self.rule.ngrams


def read_lookup_paths(model: str | Path) -> tuple[Model, tuple[LookupPath, ...]]:
    """Open a model: what it holds, and each way in which it looks words up, largest first."""
    opened = graph_files.open_graphs(model)
    found = read_model(opened).model(opened.path, small=True)
    readings: dict[tuple[str, Rule | Unclear, str], LookupPath] = {}
    linker = Linker(opened.graphs[pick_serving([graph.tags for graph in opened.graphs])])
    tables = read_tables(linker, opened)
    for reading in _read(linker, tables, found):
        key = (reading.vocabulary.name, reading.rule, reading.sites[0].kind)
        known = readings.get(key)
        sites = (known.sites if known else ()) + reading.sites
        readings[key] = reading._replace(sites=sites)
    kept = (reading for reading in readings.values() if not _never_runs(reading))
    return found, tuple(sorted(kept, key=_order))


def _never_runs(reading: LookupPath) -> bool:
    """Whether texts never reach the lookup: it is there for a batch without any."""
    return isinstance(reading.rule, Unclear) and reading.rule.why == NO_TEXTS


def _order(reading: LookupPath) -> tuple[bool, bool, int]:
    return (reading.ngrams, isinstance(reading.rule, Unclear), -len(reading.vocabulary))


def _read(linker: Linker, tables: dict[bytes, Vocabulary], found: Model) -> Iterator[LookupPath]:
    named = {vocabulary.sha256: vocabulary for vocabulary in reversed(found.vocabularies)}
    for site in find_lookup_sites(linker, tables):
        way = recover(linker, site.body, site.text)
        if isinstance(way, Unclear) and way.op in PIECES_OF:
            continue
        vocabulary = named.get(site.vocabulary.sha256, site.vocabulary)
        rule, text = (way, "") if isinstance(way, Unclear) else (Rule(way.steps), way.text)
        yield LookupPath(vocabulary, rule, text, (site,), linker)


def not_understood(readings: Sequence[LookupPath], chosen: LookupPath) -> tuple[str, ...]:
    """What to say of further lookups in the same vocabulary whose words are not told."""
    others = (r.rule for r in readings if r.vocabulary.name == chosen.vocabulary.name)
    return tuple(
        f"{chosen.vocabulary.name} is also looked up in a way that is not understood (the op "
        f"{rule.op}: {rule.why}); --exact-words tells those words, too"
        for rule in others
        if isinstance(rule, Unclear)
    )


def choose(readings: Sequence[LookupPath], found: Model, name: str | None) -> LookupPath:
    """The lookup of the vocabulary ``name``, or the first that is not of n-grams.

    Raises :class:`NoVocabulary` where there is none.
    """
    wanted = [r for r in readings if name is None or r.vocabulary.name == name]
    if wanted:
        return wanted[0]
    if name is not None:
        names = dict.fromkeys(reading.vocabulary.name for reading in readings)
        listed = "".join(f"\n  {known}" for known in names) or " nothing"
        raise NoVocabulary(
            f"{found.path}: no vocabulary named {name!r} that words are looked up in. "
            f"Looked up are:{listed}"
        )
    files = [v.places[0].file for v in found.vocabularies if v.kind == "sentencepiece" and v.places]
    model = next((Path(found.path, file) for file in files if file.endswith(".model")), None)
    rule = f"--rule tokenizer:{model}" if model else "--rule"
    raise NoVocabulary(
        f"{found.path}: no op of the model looks words up: it takes ids, or none of its "
        f"tokenizers is known. Name the rule that makes words of a text with {rule}, and with "
        "--name the vocabulary (`vocabtool inspect` lists them)"
    )


def understood(reading: LookupPath) -> Rule:
    """The rule of a reading. Raises :class:`VocabtoolError` where it is not understood."""
    if isinstance(reading.rule, Rule):
        return reading.rule
    op = f"the op {reading.rule.op}: " if reading.rule.op else ""
    raise VocabtoolError(
        f"{reading.vocabulary.name}: how the model cuts texts is not understood: {op}"
        f"{reading.rule.why}. Exact words need TensorFlow: pip install '.[tensorflow]' "
        "and ask for --exact-words"
    )
