"""Take the screenshots of the search page in ``_static/``, with Chromium.

    vocabtool demo && python -m docs.draw_search_page vocabtool-demo

The results come from the index that the demo builds. Needs the extras ``serve`` and ``test``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from shutil import which
from typing import Any, Final

from playwright.sync_api import Browser, sync_playwright

from tests.builders.served import serving

QUERY: Final = "?q=quantiles+of+data&k=4"
SHOTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "page-beside": (f"{QUERY}&beside=dense", {"viewport": {"width": 1180, "height": 1000}}),
    "page-phone": (QUERY, {"viewport": {"width": 360, "height": 720}, "color_scheme": "dark"}),
    "page-model": (
        "?tab=model&text=How+many+arguments+does+os.spawnle+take%3F&prefix=arg",
        {"viewport": {"width": 880, "height": 800}},
    ),
}
READY: Final = "#first-1, #entries li"


def draw(browser: Browser, server: str, name: str) -> None:
    """Take one screenshot of what is visible."""
    address, options = SHOTS[name]
    page = browser.new_page(**options)
    page.goto(f"{server}/{address}")
    page.wait_for_selector(READY)
    page.wait_for_load_state("networkidle")
    if word := page.query_selector("#search-tab:not([hidden]) .word.unknown"):
        word.hover()
    page.screenshot(path=Path(__file__).parent / "_static" / f"{name}.png")
    page.close()


def main(demo: Path) -> None:
    with serving({"demo": demo / "index"}) as client, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=which("chromium"), args=["--no-sandbox"]
        )
        for name in SHOTS:
            draw(browser, str(client.base_url), name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
