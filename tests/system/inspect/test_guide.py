"""The guide's own code, as it stands there, one block after the other."""

import contextlib
import io

import pytest
from inspect_ai.log import read_eval_log

from tests.system.inspect.conftest import blocks

pytestmark = [pytest.mark.root, pytest.mark.runsc]


def test_the_guide_does_what_it_says(evaluations, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENSAFE_SOCKET", str(evaluations.socket_of("agent")))
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path))
    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    names: dict = {}
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        for block in blocks("python"):
            exec(compile(block, "inspect.md", "exec"), names)
    assert blocks("text")[0] in said.getvalue()
    assert {read_eval_log(str(path), header_only=True).status for path in tmp_path.glob("*.eval")} == {"success"}
    assert names["evaluation"].principal == "evaluator"
