"""TensorFlow and PyTorch in one process, and what their native code says while it is loaded."""

# own process: TensorFlow, PyTorch

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from vocabtool.system.native_import import import_library

OPEN = "model = vocabtool.open_encoder({!r}); print(model.encode(['I love it']).shape[1])"
TENSORFLOW = OPEN.format(str(ROOT / "data" / "sentence_encoder"))


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
    assert import_library(name).__name__ == name
    with pytest.raises(ModuleNotFoundError):
        import_library("no_such_module")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == f"{heard}after\n"


@pytest.fixture(scope="module")
def sentence_transformers(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A line of Python that opens a tiny model and encodes; Triton and the libraries are there."""
    pytest.importorskip("triton", reason="it comes with PyTorch for Linux, but not for CPUs only")
    pytest.importorskip("tensorflow", reason="the extra tensorflow is missing")
    pytest.importorskip("sentence_transformers", reason="the extra is missing")
    from tests.builders.tiny_sentence_transformer import build

    return OPEN.format(str(build(tmp_path_factory.mktemp("tiny"))))


@pytest.mark.parametrize(
    "order",
    [
        "{tensorflow}\nimport triton\n{other}",
        "{other}\n{tensorflow}\nimport triton",
        "import tensorflow\n{other}\n{tensorflow}",
    ],
)
def test_triton_and_tensorflow(order: str, sentence_transformers: str) -> None:
    """Whichever comes first, vocabtool's user or vocabtool imports it: the process lives."""
    code = order.format(tensorflow=TENSORFLOW, other=sentence_transformers)
    command = [sys.executable, "-c", f"import vocabtool\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["32", "8"]
