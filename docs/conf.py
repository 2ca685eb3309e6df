"""Sphinx configuration: Markdown with MyST, commands from click, the Python API from docstrings.

The site loads nothing from other hosts: the theme contains its fonts and scripts, and formulae are
converted to MathML when the site is built.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import click
from docutils import nodes
from latex2mathml.converter import convert
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import vocabtool  # noqa: E402 - from this clone

project = "vocabtool"
author = "The vocabtool authors"
copyright = author  # noqa: A001 - Sphinx reads this name
version = release = vocabtool.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_click",
    "sphinx_copybutton",
]
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
# The site is built without the frameworks that vocabtool/integrations serves.
autodoc_mock_imports = ["haystack", "langchain_core", "llama_index", "pydantic"]
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = "vocabtool"
smartquotes = False
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
default_role = "literal"
pygments_style = "default"
pygments_dark_style = "monokai"


def inline_formula(writer: Any, node: nodes.math) -> None:
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def formula_block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(convert(node.astext(), display="block"))
    raise nodes.SkipNode


OPTION = r"(?<![\w`-])--?[a-zA-Z][\w-]*(?!\w|`)"
# Texts in backticks; options; ``onnx:NAME`` and the like; names and endings of files; ``''``.
FILE = r"(?<![\w/*])\*?[a-z_]*\.[a-z]{2,}\b"
CODE = rf"`+[^`]+`+|{OPTION}|\b[\w-]+:(?:…|[A-Z][\w@:/.]*\w)|{FILE}|''"


def literals(text: str) -> str:
    """Format the parts of a help text that are code."""
    return re.sub(CODE, lambda found: f"``{found[0].strip('`')}``", text)


def keep_options_whole(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Mark options and ``. FILE`` in the HTML of a page, so that lines do not break at hyphens."""

    def mark(found: re.Match[str]) -> str:
        return found[0] if found[0][0] == "<" else f'<span class="whole">{found[0]}</span>'

    if "body" in context:
        sourced = r'(?<=>)\.<span class="w"> </span>\.[\w./]+'
        context["body"] = re.sub(rf"<[^>]*>|{OPTION}|{sourced}", mark, context["body"])


def mark_options(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    lines[:] = literals("\n".join(lines)).split("\n")


EPILOGS: dict[str, str] = {}  # the command that has each of them first


def mark_epilog(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    """Show a text that several commands share only once."""
    name = context.command.name or ""
    first = EPILOGS.setdefault("\n".join(lines), name)
    mark_options(app, context, lines)
    if context.command.epilog and first != name:
        lines[:] = [f"MODEL is the same as for :ref:`{first} <command-{first}>`."]


def option_lines(context: click.Context) -> Iterator[str]:
    for option in context.command.params:
        if not isinstance(option, click.Option):
            continue
        value = "" if option.is_flag else f" {option.make_metavar(context).removesuffix(' RANGE')}"
        names = ", ".join((*option.opts, *option.secondary_opts))
        # Help texts that state a default themselves end with [default: ...].
        text, _, default = (option.help or "").partition("[default: ")
        default = default.removesuffix("]")
        if option.show_default and option.default not in (None, ()):
            default = f"``{option.default}``"
        yield f".. option:: {names}{value}"
        yield ""
        for line in (text, default and f"Default: {default}."):
            yield f"    {literals(line.strip())}"
            yield ""


def describe_options(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    lines[:] = option_lines(context)


def drop_arguments(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    """Omit the list of arguments: click has no text for them, and the usage line shows them."""
    lines.clear()


ITEM = re.compile(r"(?:^(?:- )?|(?<=[.;] )(?:- )?| - )(``\w+``(?:(?:,| and) ``\w+``)*): ")


def attributes(kind: str, item: Any) -> dict[str, str]:
    """Return the public fields of a dataclass or named tuple, with their types and defaults.

    Fields with a docstring of their own are skipped: autodoc lists them.
    """
    is_record = is_dataclass(item) or hasattr(item, "_field_defaults")
    if kind != "class" or not is_record:
        return {}
    defaults = dict(getattr(item, "_field_defaults", {}))
    if is_dataclass(item):
        defaults = {
            each.name: each.default
            for each in fields(item)
            if each.default is not MISSING and not is_dataclass(each.default)
        }
    listed = ModuleAnalyzer.for_module(item.__module__).find_attr_docs()
    hints: dict[str, str] = {}
    for each in reversed(item.__mro__):
        for name, hint in vars(each).get("__annotations__", {}).items():
            hints[name] = str(getattr(hint, "__forward_arg__", hint))
    return {
        name: hint
        + (
            f", default {defaults[name]!r}"
            if name in defaults and not isinstance(defaults[name], type)
            else ""
        )
        for name, hint in hints.items()
        if not name.startswith("_")
        and "ClassVar" not in hint
        and (item.__qualname__, name) not in listed
    }


def list_items(
    app: Sphinx, kind: str, name: str, item: Any, options: object, lines: list[str]
) -> None:
    """Turn "``name``: text" of a docstring into a list of parameters or attributes."""
    # A framework that is not there may have decorated it.
    item = (getattr(item, "__sphinx_decorator_args__", ()) or (item,))[0]
    types = attributes(kind, item)
    known = set(types)
    if kind in ("function", "method"):
        known = set(inspect.signature(item).parameters)
    kept: list[str] = []
    texts = dict.fromkeys(types, "")
    for paragraph in "\n".join(lines).split("\n\n"):
        text = " ".join(paragraph.split())
        found = [
            each for each in ITEM.finditer(text) if {*re.findall(r"``(\w+)``", each[1])} <= known
        ]
        if not found or found[0].start() or paragraph.startswith(" "):
            kept.append(paragraph)
            continue
        ends = [*(each.start() for each in found[1:]), len(text)]
        for each, end in zip(found, ends, strict=True):
            body = text[each.end() : end].strip()
            body, *rest = re.split(r"(?<=\.) (?=Raises? |Returns? )", body, maxsplit=1)
            kept += rest
            texts |= dict.fromkeys(re.findall(r"``(\w+)``", each[1]), body)
    field = "ivar" if types else "param"
    listed = [f":{field} {each}: {text}" for each, text in texts.items()]
    listed += [f":vartype {each}: {hint}" for each, hint in types.items()]
    lines[:] = "\n\n".join([*kept, "\n".join(listed)]).split("\n")


def skip_generated(
    app: Sphinx, kind: str, name: str, item: Any, skip: bool, options: object
) -> bool | None:
    """Skip generated members of dataclasses and named tuples, whose fields are listed, of bases
    that are not there, and methods that only wait for another one of their class.
    """
    text = getattr(item, "__doc__", None) or ""
    generated = text.startswith(("Alias for field number", "Create new instance of"))
    own = getattr(item, "__qualname__", "").endswith(("__init__", "__create_fn__"))
    inherited = name in ("__init__", "__new__") and not inspect.isfunction(item)
    foreign = (getattr(item, "__module__", None) or "").startswith("sphinx.")
    waits = name.endswith("_async")
    return True if generated or inherited or foreign or waits or (own and not text) else None


# What people search for, and the page that the site's search shows first.
FIRST_PAGES = {
    "bm25": "explanation/fusion",
    "custom encoder": "how-to/own-vectors",
    "export onnx": "how-to/choose-an-encoder",
    "extract vocabulary": "how-to/extract",
    "filter": "how-to/filter-a-search",
    "gpu": "how-to/choose-an-encoder",
    "hybrid search": "tutorials/search",
    "langchain": "how-to/langchain",
    "mcp": "how-to/connect-an-agent",
    "onnx": "how-to/choose-an-encoder",
    "out-of-vocabulary": "tutorials/unknown-words",
    "postgresql": "how-to/postgresql",
    "resume": "how-to/embed-a-corpus",
    "unknown words": "tutorials/unknown-words",
}


def name_searched_words(app: Sphinx, doctree: nodes.document) -> None:
    """Give a page main entries of the index, which come first in a search."""
    page = app.env.current_document.docname
    entries = [
        ("single", words, "", "main", None)
        for words, first_page in FIRST_PAGES.items()
        if first_page == page
    ]
    doctree.append(addnodes.index(entries=entries))


def finish_page(app: Sphinx, doctree: nodes.document) -> None:
    """Mark terminal tables, whose lines must not wrap; remove broken links; set dashes."""
    for block in doctree.findall(nodes.literal_block):
        text, told = block.astext(), block.get("language") == "console"
        if "───" in text or (told and re.search(r"\S {3,}\S+ {2,}\S", text)):
            block["classes"].append("columns")
    for link in list(doctree.findall(nodes.reference)):
        if link.get("refuri") in ("https://", "FILE:LINE"):  # docutils takes them for addresses
            link.replace_self(link.children)
    for text in list(doctree.findall(nodes.Text)):
        if text == " -- ":  # between a parameter and its description
            text.parent.replace(text, nodes.Text(" \u2013 "))


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", finish_page)
    app.connect("doctree-read", name_searched_words)
    app.connect("html-page-context", keep_options_whole)
    app.connect("autodoc-process-docstring", list_items)
    app.connect("autodoc-skip-member", skip_generated)
    app.connect("sphinx-click-process-description", mark_options)
    app.connect("sphinx-click-process-options", describe_options)
    app.connect("sphinx-click-process-epilog", mark_epilog)
    app.connect("sphinx-click-process-arguments", drop_arguments)
    app.add_html_math_renderer("mathml", (inline_formula, None), (formula_block, None))
