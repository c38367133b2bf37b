"""The cache of native code and the watchdog."""

import os
import pathlib
import threading
import time

import pytest

from opensafe.errors import PolicyError
from opensafe.model.decision import Action
from opensafe.policy._wasmtime import lib
from opensafe.policy.engine import Engine
from opensafe.policy.manifest import Bundle
from opensafe.policy.native import Runtime, Tier
from opensafe.policy.watchdog import Watchdog
from tests.harness.policy import guest, read


@pytest.fixture
def runtime():
    runtime = Runtime()
    yield runtime
    runtime.close()


def compiled(runtime: Runtime, cache: pathlib.Path) -> None:
    lib.wasmtime_module_delete(runtime.compile_module(guest(), cache))


def test_native_code_is_kept_and_taken_again(runtime: Runtime, tmp_path: pathlib.Path) -> None:
    cache = tmp_path / "native"
    compiled(runtime, cache)
    (kept,) = cache.iterdir()
    before = kept.stat()
    compiled(runtime, cache)
    assert list(cache.iterdir()) == [kept]
    assert (kept.stat().st_ino, kept.stat().st_mode & 0o777) == (before.st_ino, 0o600)


def test_each_tier_answers_whichever_was_there_first(bundle: Bundle) -> None:
    for tier in (*Tier, *Tier):
        engine = Engine(bundle, tier=tier)
        assert engine.evaluate("gate/read", read()).action is Action.ALLOW
        engine.close()


def test_a_damaged_cache_is_made_anew(runtime: Runtime, tmp_path: pathlib.Path) -> None:
    compiled(runtime, tmp_path / "native")
    (kept,) = (tmp_path / "native").iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(b"damaged")
    compiled(runtime, tmp_path / "native")
    assert kept.read_bytes() == whole


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_cache_that_others_may_write_to_is_refused(runtime: Runtime, tmp_path: pathlib.Path, mode: int) -> None:
    cache = tmp_path / "native"
    cache.mkdir()
    cache.chmod(mode)
    with pytest.raises(PolicyError, match="others can change"):
        runtime.compile_module(guest(), cache)
    assert not list(cache.iterdir())


def test_a_cached_file_that_others_may_write_to_is_refused(runtime: Runtime, tmp_path: pathlib.Path) -> None:
    compiled(runtime, tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.chmod(0o666)
    with pytest.raises(PolicyError, match="others can change"):
        runtime.compile_module(guest(), tmp_path)


def test_a_cache_behind_a_link_is_refused(runtime: Runtime, tmp_path: pathlib.Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(PolicyError, match="others can change"):
        runtime.compile_module(guest(), tmp_path / "link")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory away")
def test_a_cache_of_another_user_is_refused(runtime: Runtime, tmp_path: pathlib.Path) -> None:
    cache = tmp_path / "native"
    cache.mkdir(mode=0o755)
    os.chown(cache, 65534, 65534)
    with pytest.raises(PolicyError, match="others can change"):
        runtime.compile_module(guest(), cache)


def test_the_watchdog_fires_when_due_and_not_after_it_was_disarmed() -> None:
    fired = threading.Semaphore(0)
    watchdog = Watchdog(fired.release)
    try:
        watchdog.arm(60_000_000_000)
        watchdog.disarm()
        watchdog.arm(1_000_000)  # sooner than what is pending
        assert fired.acquire(timeout=30)
        watchdog.arm(1_000_000)
        assert fired.acquire(timeout=30)
        watchdog.arm(60_000_000_000)
        watchdog.disarm()
    finally:
        watchdog.close()
        watchdog.close()
    assert not fired.acquire(blocking=False)


def test_the_deadline_counts_work_and_not_waiting() -> None:
    fired = threading.Event()
    watchdog = Watchdog(fired.set, patience=1_000_000)
    try:
        begun = time.thread_time_ns()
        watchdog.arm(5_000_000)
        fired.wait(0.1)  # a thread that a busy host keeps waiting
        while not fired.is_set():
            pass
        assert time.thread_time_ns() - begun >= 5_000_000
    finally:
        watchdog.close()
