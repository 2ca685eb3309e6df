"""Run a test file that needs a heavy library in a process of its own.

A process that imports TensorFlow, PyTorch, Ray or spaCy holds it until the end, and a worker of
pytest-xdist runs many files. So a file with a comment ``# own process: LIBRARY`` is one item of
pytest, which does not import the file. The item runs pytest for the file in a child process and
passes on the child's reports. A file that is named on the command line runs as usual, and so does
each file with ``--lf`` and ``--pdb``.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

SECONDS = 3_600  # a file; pytest limits each test, but not imports and the end of a process
MARK = b"\n# own process: "
LIBRARIES = {
    "keras",
    "ray",
    "sentence_transformers",
    "spacy",
    "tensorflow",
    "torch",
    "transformers",
}
IMPORTED = pytest.StashKey[set[str]]()  # which of them the collection of the other files imported
COUNTS, LOGSTART, LOGFINISH = "counts", "pytest_runtest_logstart", "pytest_runtest_logfinish"
# Options that a child process gets from its parent, and the names of their values.
OPTIONS = {
    "-k": "keyword",
    "-m": "markexpr",
    "-o": "override_ini",
    "-p": "plugins",
    "-W": "pythonwarnings",
    "--capture": "capture",
    "--deselect": "deselect",
    "--full": "full",
    "--hypothesis-seed": "hypothesis_seed",
    "--maxfail": "maxfail",
    "--runxfail": "runxfail",
    "--showlocals": "showlocals",
    "--tb": "tbstyle",
    "--verbosity": "verbose",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reports", help=argparse.SUPPRESS)  # the file that a child process writes


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--reports")
    if file is not None:
        config.pluginmanager.register(ReportWriter(config, Path(file)))


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    options = parent.config.option
    # With --lf, pytest knows the tests that failed by their names, and drops this item.
    as_usual = options.usepdb or options.collectonly or getattr(options, "lf", False)
    is_named = parent.session.isinitpath(module_path)
    if as_usual or is_named or MARK not in module_path.read_bytes():
        return None
    file: pytest.Collector = OwnProcessFile.from_parent(parent, path=module_path)
    return file


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Leave the choice by ``-k`` and ``-m`` inside a file to its child process."""
    own = [item for item in items if isinstance(item, OwnProcess)]
    items[:] = [item for item in items if not isinstance(item, OwnProcess)]
    yield
    items[:] = [*own, *items]


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.pluginmanager.register(Progress(session))


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[IMPORTED] = LIBRARIES & set(sys.modules)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not isinstance(item, OwnProcess):
        return None
    faulthandler.cancel_dump_traceback_later()  # the child has this time for each test
    own_reports = runtestprotocol(item, log=False, nextitem=nextitem)
    item.replay()
    if any(report.failed for report in own_reports):
        for report in own_reports:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


class OwnProcessFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        yield OwnProcess.from_parent(self, name="own process")


class OwnProcess(pytest.Item):
    """All tests of one file.

    While a report is passed on, this item has the node id of its test, as pytest-xdist expects.
    """

    test = ""
    events: tuple[dict[str, Any], ...] = ()

    @property
    def nodeid(self) -> str:
        return self.test or super().nodeid

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name

    def runtest(self) -> None:
        factory = self.config._tmp_path_factory  # type: ignore[attr-defined]
        folder: Path = factory.mktemp(self.path.stem)
        reports = folder / "reports"
        reports.touch()
        command = [sys.executable, "-m", "pytest", str(self.path), "--no-header", "--no-summary"]
        command += [f"--reports={reports}", f"--basetemp={folder / 'tmp'}"]
        for option, name in OPTIONS.items():
            value = self.config.getoption(name, None)
            if isinstance(value, list):  # pytest-xdist adds no:terminal in its workers
                command += [word for one in value if one != "no:terminal" for word in (option, one)]
            elif value:
                command += [option] if value is True else [option, str(value)]
        environment = {**os.environ, "PYTEST_ADDOPTS": ""}  # they are among the options
        with (folder / "output").open("w+b") as output:
            code = subprocess.run(
                command,
                cwd=self.config.rootpath,
                env=environment,
                stdout=output,
                stderr=output,
                timeout=SECONDS,
            ).returncode
            output.seek(0)
            sys.stdout.write(output.read().decode("utf-8", "replace"))
        lines = reports.read_text("utf-8").splitlines(keepends=True)
        # A process that crashed may have left half a line.
        self.events = tuple(json.loads(line) for line in lines if line.endswith("\n"))
        self.check(code)

    def check(self, code: int) -> None:
        """Fail unless the child ended well and reported every test that it had collected."""
        outcomes = [event["report"]["outcome"] for event in self.events if "report" in event]
        failures = outcomes.count("failed")
        collected = [event["collected"] for event in self.events if event["hook"] == COUNTS]
        started = [event["nodeid"] for event in self.events if event["hook"] == LOGSTART]
        finished = sum(event["hook"] == LOGFINISH for event in self.events)
        is_stopped = 0 < (self.config.getoption("maxfail") or 0) <= failures
        # 0: all passed, 5: no tests, 1: failures, 2: the file cannot be imported
        if code in ((1, 2) if failures else (0, 5)) and (collected == [finished] or is_stopped):
            return
        text = f"The process of {self.path.name} ended with code {code}"
        text += f" after {finished} of {collected[0]} tests" if collected else " before any test"
        if finished < len(started):
            text += f", in {started[-1]}"
        pytest.fail(f"{text}. Its output is below.", pytrace=False)

    def replay(self) -> None:
        """Report what the child reported."""
        more_tests = 0
        for event in self.events:
            hook = event.pop("hook")
            if hook == COUNTS:
                more_tests = event["collected"] - 1
                if more_tests < 0:  # if no file has a test, pytest ends with code 5
                    self.session.testscollected -= 1
                self.ihook.pytest_deselected(items=[self] * event["deselected"])
                continue
            if "report" in event:
                report = self.config.hook.pytest_report_from_serializable(
                    config=self.config, data=event["report"]
                )
                if isinstance(report.longrepr, list):  # JSON has no tuples
                    report.longrepr = tuple(report.longrepr)
                report.more_tests, more_tests = more_tests, 0
                event["report"] = report
            self.test = event["nodeid"] if "nodeid" in event else event["report"].nodeid
            getattr(self.ihook, hook)(**event)
        self.test = ""


class Progress:
    """Counts the tests of a child process, where its first report comes by, in the percentages."""

    def __init__(self, session: pytest.Session) -> None:
        self.session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.session.testscollected += getattr(report, "more_tests", 0)


class ReportWriter:
    """In the child process: writes each event as a line of JSON."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self.config = config
        self.file = file.open("w", encoding="utf-8")
        self.deselected = 0

    def write(self, hook: str, **values: object) -> None:
        self.file.write(json.dumps({"hook": hook, **values}) + "\n")
        self.file.flush()

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self.deselected += len(items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.write(COUNTS, collected=len(session.items), deselected=self.deselected)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported, or is skipped, is reported like a test in its setup."""
        if not report.passed:
            name, text = report.nodeid, report.longrepr
            place = (name, None, name)
            self.pytest_runtest_logreport(
                pytest.TestReport(name, place, {}, report.outcome, text, "setup")
            )

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self.write(LOGSTART, nodeid=nodeid, location=location)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.write("pytest_runtest_logreport", report=data)

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self.write(LOGFINISH, nodeid=nodeid, location=location)
