"""Commands of a step: what a failure says, and that a silent command is still seen to live."""

import os
import subprocess

import pytest

from tools.provision.runner import Runner, StepError


@pytest.fixture
def said():
    return []


@pytest.fixture
def run(tmp_path, said):
    return Runner(log=tmp_path / "logs" / "step.log", say=said.append)


def test_output_is_returned_and_logged_with_the_command(run):
    assert run(["sh", "-c", "echo out; echo err >&2"], remedy="none") == "out\nerr\n"
    assert run.log.read_text() == "$ sh -c 'echo out; echo err >&2'\nout\nerr\n"


def test_a_failure_names_status_last_lines_and_remedy(run):
    with pytest.raises(StepError) as failure:
        run(["sh", "-c", "seq 100; exit 7"], remedy="do this")
    assert failure.value.why == "sh exited with 7"
    assert failure.value.remedy == "do this"
    assert failure.value.output.splitlines() == [str(number) for number in range(86, 101)]


def test_the_replay_line_fails_in_the_same_way(run, tmp_path):
    directory = tmp_path / "a directory"
    directory.mkdir()
    with pytest.raises(StepError) as failure:
        run(["sh", "-c", 'echo "$0 $WORD $PWD"; exit 3', "it's"], remedy="", cwd=directory, env={"WORD": "two words"})
    replayed = subprocess.run(["sh", "-c", failure.value.replay], capture_output=True, text=True)
    assert (replayed.returncode, replayed.stdout.strip()) == (3, failure.value.output)


def test_a_missing_program_is_a_failure_of_the_step(run):
    with pytest.raises(StepError, match="can't be started: No such file"):
        run(["/nonexistent/program"], remedy="")


def test_a_silent_command_gives_a_sign_of_life(tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    signs = []

    def open_the_gate(text):
        signs.append(text)
        if len(signs) == 1:
            gate.write_text("go\n")

    run = Runner(log=tmp_path / "log", say=open_the_gate, heartbeat_s=0.05)
    assert run(["sh", "-c", 'echo started; read -r word <"$0"; echo "$word"', str(gate)], remedy="") == "started\ngo\n"
    assert signs[0].endswith("started")


def test_a_command_gets_no_standard_input(run):
    assert run(["cat"], remedy="") == ""
