"""What native code says while it is loaded is heard, or not, as TensorFlow's variable says."""

from __future__ import annotations

import os
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
