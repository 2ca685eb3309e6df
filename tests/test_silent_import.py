"""What native code says while it is loaded is heard, or not, as TensorFlow's variable says."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vocabtool.words.silent_import import imported


@pytest.mark.parametrize(("level", "heard"), [("3", ""), ("2", "told\n"), (None, "told\n")])
def test_standard_error_while_a_module_is_imported(
    level: str | None,
    heard: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """As native code writes it; afterwards all of it is heard again, also after a failure."""
    name = f"loud_{level}"
    (tmp_path / f"{name}.py").write_text("import os\nos.write(2, b'told\\n')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    if level is not None:
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)
    assert imported(name).__name__ == name
    with pytest.raises(ModuleNotFoundError):
        imported("no_such_module")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == f"{heard}after\n"


def test_many_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One is muted at a time, what is there is not imported again: all is heard afterwards."""
    names = [f"loud_{number}" for number in range(20)]
    for name in names:
        text = "import os, time\nos.write(2, b'told\\n')\ntime.sleep(0.01)\n"
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    with ThreadPoolExecutor(4) as threads:
        assert [module.__name__ for module in threads.map(imported, names * 2)] == names * 2
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


def test_without_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is closed, or no file can be opened, nothing is muted and nothing fails."""
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.setattr(os, "dup", lambda _: (_ for _ in ()).throw(OSError(9, "closed")))
    with pytest.raises(ModuleNotFoundError):
        imported("no_such_module")
