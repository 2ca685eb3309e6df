"""What several test files share: where the collection of real models is, if it is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from hypothesis import settings

from vocabtool.system.native_import import load_triton

if TYPE_CHECKING:
    from tests.builders.text_models import TextTruth

pytest_plugins = ("tests.builders.postgres_server", "tests.own_process")

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # before a test imports Haystack
load_triton()  # before a test file imports TensorFlow

settings.register_profile("part", deadline=None, max_examples=25)  # machines are shared
settings.register_profile("full", deadline=None)

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real models and collections; a clone of the project does not have it."""
    folder = Path(os.environ.get("VOCABTOOL_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no real models: {folder.name}/ is not there (set VOCABTOOL_SHARED)")
    return folder


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is kept between runs of the command stays out of the cache of who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOCABTOOL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, TextTruth]]:
    """Builds a model of ``text_models.py`` when it is first asked for; needs TensorFlow."""
    from tests.builders.text_models import build_text_model

    folder = tmp_path_factory.mktemp("text_models")
    made: dict[str, tuple[Path, TextTruth]] = {}

    def build(name: str) -> tuple[Path, TextTruth]:
        if name not in made:
            made[name] = build_text_model(folder, name)
        return made[name]

    return build


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full",
        action="store_true",
        help="run fuzzing, kills and drawn examples in full, not a part",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sampled(n): one case in n is run, with --full every one")
    settings.load_profile("full" if config.getoption("--full") else "part")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect all cases but one in n of each sampled test, unless all were asked for.

    Which one is first depends on the test, so that tests of the same cases take different ones.
    """
    if config.getoption("--full"):
        return
    seen: dict[str, int] = {}
    left_out = []
    for item in items:
        if (marker := item.get_closest_marker("sampled")) is not None:
            name = item.nodeid.partition("[")[0]
            one_in: int = marker.args[0]
            seen[name] = seen.get(name, crc32(name.encode()) % one_in) + 1
            if seen[name] % one_in:
                left_out.append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether long suites run in full."""
    return bool(request.config.getoption("--full"))
