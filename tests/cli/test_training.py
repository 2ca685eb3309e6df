"""What the demo reads, against what Python shows of itself."""

from __future__ import annotations

import inspect
import json.decoder
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from vocabtool.cli.demo import MIN_DOCUMENTS, documentation
from vocabtool.errors import NotFound

LONG = "It is described at some length, so that there is something to learn from it."


def texts_of(folder: Path, source: str) -> dict[str, str]:
    """What is read of a library of this source file, and of others that make it enough."""
    many = "".join(f'def f{number}():\n    """{LONG}"""\n' for number in range(MIN_DOCUMENTS))
    (folder / "many.py").write_text(many)
    (folder / "part.py").write_text(textwrap.dedent(source))
    found = documentation(folder)
    assert len({document.id for document in found}) == len(found)
    return {each.id: each.text for each in found if each.id.startswith("part")}


def test_docstrings_are_those_that_python_shows() -> None:
    """A docstring read out of the source is what `inspect` says of the running object."""
    found = {document.id: document.text for document in documentation()}
    objects = {
        "json.decoder.JSONDecoder.raw_decode": json.decoder.JSONDecoder.raw_decode,
        "textwrap.TextWrapper.fill": textwrap.TextWrapper.fill,
        "collections.Counter.most_common": Counter.most_common,
    }
    for name, of in objects.items():
        assert found[name] == f"{name}\n\n{inspect.getdoc(of)}"
    assert "topics.assert" in found


def test_what_is_read_of_a_source_file(tmp_path: Path) -> None:
    """Modules, classes, methods and functions, also below `if` and `try`; nothing is run."""
    source = f'''
        """The module. {LONG}"""
        if True:
            def chosen():
                """First. {LONG}"""
                def inner():
                    """Inside. {LONG}"""
        else:
            def chosen():
                """Second. {LONG}"""
        try:
            class Tried:
                """Class. {LONG}"""
                async def method(self):
                    """Method. {LONG}"""
        except ImportError:
            def instead():
                """Instead. {LONG}"""
        def short():
            """Too short."""
        raise SystemExit("it was run")
    '''
    assert texts_of(tmp_path, source) == {
        "part": f"part\n\nThe module. {LONG}",
        "part.chosen": f"part.chosen\n\nFirst. {LONG}",
        "part.Tried": f"part.Tried\n\nClass. {LONG}",
        "part.Tried.method": f"part.Tried.method\n\nMethod. {LONG}",
        "part.instead": f"part.instead\n\nInstead. {LONG}",
    }


def test_long_texts_are_cut_between_paragraphs(tmp_path: Path) -> None:
    """Paragraphs are put together up to so many words; a longer one stands alone, uncut."""
    half, more = ("w " * 100).strip(), ("u " * 300).strip()
    found = texts_of(tmp_path, f'"""{half}\n\n{half}\n\none\n\n{more}"""')
    assert found == {
        "part#1": f"part\n\n{half}\n\n{half}",
        "part#2": "part\n\none",
        "part#3": f"part\n\n{more}",
    }


def test_a_python_without_its_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is said plainly, and what to do about it."""
    monkeypatch.setitem(__import__("sys").modules, "pydoc_data.topics", None)
    with pytest.raises(NotFound, match=r"Python's own documentation.*python\.org"):
        documentation(tmp_path)
