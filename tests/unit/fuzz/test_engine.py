"""The engine, before targets made for it: what it calls a finding, what it calls vacuous, what counts as killed."""

import textwrap

import pytest

from opensafe.errors import InvalidArgument
from opensafe.proof.fuzzing import catalogue, killing, running
from opensafe.proof.mutants import Mutant

pytest.importorskip("atheris", reason="opensafe[fuzz] is not installed")

OCTAL = 'int(text, 8) if text.startswith("0") else int(text)'


def _located(tmp_path, body, *, floor=5, imports="", mutants="", more=""):
    file = tmp_path / "targets" / "f90_made.py"
    file.parent.mkdir(parents=True)
    text = f"""
        import os
        {imports}
        from opensafe.normalize import urls
        from opensafe.proof.fuzzing.target import Target, holds
        from opensafe.proof.mutants import Mutant

        def one(data):
            text = data.decode("utf-8", "replace")
            {body}

        TARGET = Target(id="F90", title="made", one=one, seeds=lambda: [b"127.0.0.01", b"a.test", b"http://b.test"],
                        modules=("opensafe.normalize.urls",), floor={floor}, mutants=({mutants}), runs=2000,
                        {more})
    """
    file.write_text(textwrap.dedent(text))
    return catalogue.target("F90", tmp_path)


def _run(located, runs=2000):
    return running.run(located, runs=runs, seconds=30, seed=1)


def test_a_run_that_reaches_something_and_breaks_nothing_is_ok(tmp_path):
    done = _run(_located(tmp_path, "urls.canonical_name(text)"))
    assert done.ok
    assert done.executed == 2000
    assert done.coverage >= 5
    assert done.new_units > 0


def test_a_finding_is_minimised_and_shows_again(tmp_path):
    located = _located(tmp_path, 'holds("a" not in (urls.canonical_name(text) or ""), "no a", text)')
    done = _run(located)
    assert not done.ok
    assert done.finding.kind == "BrokenInvariantError no a"
    assert done.finding.input.lower() == b"a"
    assert running.replay(located, [b"b", done.finding.input]).kind == done.finding.kind
    assert running.replay(located, [b"b"]) is None


def test_an_untyped_exception_is_a_finding(tmp_path):
    done = _run(_located(tmp_path, "urls.canonical_name(text); len(text) > 12 and [][0]"))
    assert done.finding.kind == "IndexError f90_made.py:one"


def test_a_death_of_the_child_is_a_finding(tmp_path):
    done = _run(_located(tmp_path, "urls.canonical_name(text); len(text) > 12 and os.abort()"))
    assert done.finding.kind == "died"
    assert len(done.finding.input) > 12


@pytest.mark.parametrize(
    ("body", "floor", "why"),
    [
        ("urls.canonical_name(text)", 100_000, "edges of at least 100000"),
        ("pass", 0, "no input reached"),
    ],
    ids=["below-floor", "nothing-new"],
)
def test_a_vacuous_run_is_no_success(tmp_path, body, floor, why):
    done = _run(_located(tmp_path, body, floor=floor))
    assert why in done.vacuous
    assert not done.ok


def test_a_target_may_mutate_for_itself(tmp_path):
    more = "mutate=lambda data, most, seed: b'n' * (20 + seed % 9)"
    done = _run(_located(tmp_path, 'urls.canonical_name(text); holds(text[19:20] != "n", "no n")', more=more))
    assert set(done.finding.input) == {ord("n")}


def test_coverage_is_that_of_the_modules_named(tmp_path):
    located = _located(tmp_path, "paths.judged(text)", imports="from opensafe.egress import paths", floor=1)
    assert _run(located).vacuous


def _mutant(**changes):
    return Mutant(**{"id": "F90-x", "file": "normalize/urls.py", "old": OCTAL, "new": "int(text)"} | changes)


def test_a_mutant_is_killed_by_what_it_breaks(tmp_path):
    located = _located(tmp_path, 'holds(urls.canonical_name("010.1") == "8.0.0.1", "octal")')
    killed = killing.kill(located, _mutant(), seconds=30)
    assert killed.ok
    assert killed.broken == "BrokenInvariantError octal"


def test_a_mutant_that_changes_nothing_seen_survives(tmp_path):
    killed = killing.kill(_located(tmp_path, "urls.canonical_name(text)"), _mutant(), seconds=30)
    assert killed.why == "nothing was found"


@pytest.mark.parametrize(("does", "kind"), [("time.sleep(60)", "timeout"), ("os.abort()", "died")])
def test_a_mutant_that_hangs_or_dies_breaks_no_invariant_and_survives(tmp_path, monkeypatch, does, kind):
    monkeypatch.setattr(running, "_INPUT_S", 1)
    body = f'urls.canonical_name("010.1") == "8.0.0.1" or {does}'
    killed = killing.kill(_located(tmp_path, body, imports="import time"), _mutant(), seconds=30)
    assert kind in killed.why


def test_a_fault_of_the_code_as_it_is_kills_no_mutant(tmp_path):
    located = _located(tmp_path, 'urls.canonical_name(text); holds("t" not in text[:1], "never")')
    killed = killing.kill(located, _mutant(), seconds=30)
    assert "the code as it is breaks" in killed.why


def test_what_a_copy_alone_breaks_kills_no_mutant(tmp_path):
    located = _located(tmp_path, 'holds("opensafe-mutant-" not in urls.__file__, "not a copy")')
    assert "a copy without a fault breaks" in killing.kill(located, _mutant(), seconds=30).why


def test_a_mutant_that_can_not_be_imported_is_an_error_and_not_killed(tmp_path):
    located = _located(tmp_path, "urls.canonical_name(text)")
    with pytest.raises(Exception, match="could not be started"):
        killing.kill(located, _mutant(old="import functools\n", new="import no_such_module\n"), seconds=30)


def test_a_mutant_of_code_that_has_changed_was_not_killed(tmp_path):
    killed = killing.kill(_located(tmp_path, "urls.canonical_name(text)"), _mutant(old="no such text"), seconds=30)
    assert "stands 0 times" in killed.why


def test_unknown_targets_are_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="no such target"):
        catalogue.target("F99")
    with pytest.raises(InvalidArgument, match="no targets"):
        catalogue.targets(tmp_path)
