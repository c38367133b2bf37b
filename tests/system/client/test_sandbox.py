"""The sandbox API against a real daemon: commands, streams, terminals, files, and what is whose failure."""

import threading

import pytest

from opensafe.client import (
    AsyncSession,
    CommandCancelled,
    CommandFailed,
    CommandNotStarted,
    CommandTimedOut,
    Denied,
    FileError,
    OutputLimitExceeded,
    RequestError,
    Sandbox,
    Session,
)

pytestmark = [pytest.mark.root, pytest.mark.runsc]


def test_a_command_has_output_and_status_and_a_no_has_its_rule(box):
    result = box.exec(["python3", "-c", "import sys; print('é'); print('err', file=sys.stderr); sys.exit(3)"])
    assert (result.exit_code, result.stdout, result.stderr) == (3, "é\n", "err\n")
    with pytest.raises(CommandFailed, match="exited with 1"):
        box.bash("false", check=True)
    with pytest.raises(Denied) as caught:
        box.bash("curl https://evil.example.com")
    assert caught.value.rule == "egress.domain.allowlist"
    assert caught.value.value == "evil.example.com"
    assert caught.value.remedy


def test_a_program_has_its_directory_variables_and_input(box):
    assert box.bash("pwd; echo $GREETING", cwd="/tmp", env={"GREETING": "hi"}).stdout == "/tmp\nhi\n"
    assert box.bash("sort", stdin="b\na\n").stdout == "a\nb\n"
    assert box.bash("sort", stdin=iter([b"b\n", b"a\n"])).stdout == "a\nb\n"
    assert box.tool("Exec", {"argv": ["echo", "x"]}).stdout == "x\n"


def test_what_does_not_end_by_itself_says_how_it_ended(box):
    with pytest.raises(CommandTimedOut) as late:
        box.bash("echo begun; sleep 60", timeout=1)
    assert late.value.result.stdout == "begun\n"
    with pytest.raises(OutputLimitExceeded) as much:
        box.bash("yes", output_limit=1000)
    assert len(much.value.result.stdout_bytes) == 1000
    with pytest.raises(CommandNotStarted):
        box.exec(["./missing"])
    assert box.bash("kill -9 $$").exit_code == -9
    with pytest.raises(RequestError):
        box.tool("Nonsense", {})


def test_a_stream_is_read_typed_to_signalled_and_cancelled(box):
    pieces = list(box.stream("echo out; echo err >&2"))
    assert {(piece.stream, piece.text) for piece in pieces} == {("stdout", "out\n"), ("stderr", "err\n")}
    box.files.write("upper.py", "import sys\nfor line in sys.stdin:\n    print(line.upper(), end='', flush=True)\n")
    with box.stream(["python3", "upper.py"], interactive=True) as run:
        run.send("typed\n")
        assert next(run).text == "TYPED\n"
        run.close_stdin()
        assert list(run) == []
    assert run.result.ok
    with box.stream("sleep 1000") as run:
        run.signal(15)
        assert run.wait().exit_code == -15
    with box.stream("sleep 1000", call_id="long") as run:
        box.cancel("long")
        with pytest.raises(CommandCancelled):
            run.wait()


def test_a_terminal_is_read_written_and_resized(box):
    text = "import os, sys\nprint('who?')\nname = input()\nprint('hello', name, os.get_terminal_size().columns)\n"
    box.files.write("ask.py", text)
    with box.terminal("python3 ask.py", columns=100, rows=30) as terminal:
        assert "who?" in terminal.read_until("who?", timeout=60)
        with pytest.raises(TimeoutError):
            terminal.read_until("never", timeout=0.01)
        terminal.resize(80, 24)
        terminal.write("ada\n")
        assert "hello ada 80" in terminal.read_until("hello ada 80", timeout=60)
        assert terminal.wait().exit_code == 0


def test_files_go_in_and_out(box, tmp_path):
    box.files.write("notes.txt", "héllo")
    assert box.files.read("notes.txt") == "héllo"
    assert box.files.read_bytes("notes.txt", offset=1, length=2) == "é".encode()
    box.files.write("raw", b"\xff")
    with pytest.raises(RequestError, match="UTF-8"):
        box.files.read("raw")
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    (tree / "inner" / "file").write_text("content")
    assert box.files.upload(tree, "there").count == 0
    assert box.bash("cat there/inner/file").stdout == "content"
    box.files.move("there/inner/file", "there/moved")
    assert [entry.filename for entry in box.files.list("there")] == ["inner", "moved"]
    assert box.files.download("there", tmp_path / "back").count == 0
    assert (tmp_path / "back" / "moved").read_text() == "content"
    box.files.download("there/moved", tmp_path / "one")
    assert (tmp_path / "one").read_text() == "content"
    box.files.mkdir("made/deep", parents=True)
    box.files.remove("made", recursive=True)
    assert not box.files.exists("made")
    assert box.files.exists("notes.txt")
    with pytest.raises(FileError):
        box.files.read("missing")


def test_large_content_that_is_denied_is_denied(box, tmp_path):
    """The reason arrives although there is more to send than fits in any buffer."""
    large = tmp_path / "large"
    large.write_bytes(b"x" * (8 << 20))
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_bytes(b"x" * (8 << 20))
    for _ in range(3):
        with pytest.raises(Denied) as caught:
            box.files.write(".git/hooks/pre-commit", large)
        assert caught.value.rule
        with pytest.raises(Denied):
            box.files.upload(tmp_path / "tree", "/etc")
    box.files.write("large", large)  # the twin
    assert box.files.stat("large").size == 8 << 20


def test_a_changing_directory_is_watched(box):
    changes = box.files.watch(".")
    assert next(changes).kind == "watching"
    box.files.write("new", "x")
    assert next(changes).path
    changes.close()


def test_sandboxes_of_a_session_are_apart_and_gone_at_its_end(daemon):
    socket = daemon.socket_of("agent")
    with Session.create("tester", socket=socket) as session:
        with session.sandbox(labels={"role": "judge"}) as one, session.sandbox() as other:
            one.files.write("answer", "42")
            assert (one.files.exists("answer"), other.files.exists("answer")) == (True, False)
            assert one.info().labels == {"role": "judge"}
            one.pause()
            assert one.unpause().state == "running"
        left = session.sandbox()
        with Sandbox.connect(session.session_id, left.sandbox_id, socket=socket) as found:
            assert found.bash("echo hi").stdout == "hi\n"
        assert left.info().state == "running"
        assert session.report_usage(tokens=5).tokens == 5
    with Session.create("tester", socket=socket) as session, pytest.raises(RequestError):
        session.connect_sandbox(left.sandbox_id)
    assert [thread.name for thread in threading.enumerate() if thread.name == "opensafe-client"] == []


async def test_the_asynchronous_side_does_the_same(daemon):
    async with AsyncSession.create("tester", socket=daemon.socket_of("agent")) as session, session.sandbox() as box:
        async with box.stream("echo one; echo two") as run:
            assert "".join([piece.text async for piece in run]) == "one\ntwo\n"
        await box.files.write("file", "x")
        assert await box.files.read("file") == "x"
        with pytest.raises(Denied):
            await box.files.read("/etc/shadow")


def test_it_works_where_an_event_loop_runs(daemon):
    import asyncio

    async def cell():
        with Sandbox.create("tester", socket=daemon.socket_of("agent")) as box:
            return box.bash("echo cell").stdout

    assert asyncio.run(cell()) == "cell\n"
