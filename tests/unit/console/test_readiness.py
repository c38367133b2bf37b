"""Whether a candidate can be put in force, and what to type where it can't."""

import os
import pathlib
import shlex

import msgspec
import pytest

from opensafe.client import DaemonStatus
from opensafe.console.candidates import Candidate, Replayed
from opensafe.console.readiness import readiness


def candidate(number=8, key="k1", name="new.tar.gz", digest="d"):
    summary = {
        "candidate_revision": f"{number}-0",
        "candidate_number": number,
        "candidate_digest": digest,
        "candidate_key": key,
        **dict.fromkeys(("decisions", "changed", "loosened", "tightened", "other_rules", "calls_per_s"), 0),
    }
    details = {"skipped": 0, "transitions": {}, "rules": {}, "changes": []}
    found = Candidate(path=pathlib.Path("/x"), name=name, digest=digest, size=1)
    found.replayed = msgspec.convert({"summary": summary, "details": details}, Replayed)
    return found


def status(place, **more):
    fields = {
        "version": "1",
        "bundle_revision": "7-0",
        "bundle_digest": "in force",
        "runsc_version": "",
        "runsc_platform": "",
        "checks": (),
        "ledger_size": 0,
        "audit_size": 0,
        "audit_head": "",
        "append_only": True,
        "sandboxes": 0,
        "programs": 0,
        "removed_at_start": (),
        "bundle_number": 7,
        "trusted_keys": ("k1",),
        "bundle_path": str(place / "bundle.tar.gz"),
    }
    return DaemonStatus(**{**fields, **more})


def test_one_that_is_signed_and_higher_is_ready(tmp_path):
    found = readiness(candidate(), status(tmp_path))
    assert (found.ready, found.reachable, found.put) == (True, True, "opensafe policy activate new.tar.gz")


@pytest.mark.parametrize(
    ("how", "signed", "numbered"),
    [
        ({"number": 7}, "named", False),
        ({"key": ""}, "no", True),
        ({"key": "k2"}, "untrusted", True),
        ({"digest": "in force"}, "named", True),
    ],
)
def test_what_the_daemon_would_refuse_is_not_ready(tmp_path, how, signed, numbered):
    found = readiness(candidate(**how), status(tmp_path))
    assert (found.ready, found.signed, found.numbered) == (False, signed, numbered)


@pytest.mark.parametrize(("number", "wanted"), [(3, 8), (7, 8), (8, 8), (20, 20)])
def test_the_command_signs_under_a_number_that_is_taken(tmp_path, number, wanted):
    assert readiness(candidate(number, key=""), status(tmp_path)).sign.endswith(f" --number {wanted}")


def test_a_place_that_is_not_there_is_out_of_reach():
    assert not readiness(candidate(), status(pathlib.Path("/nowhere"))).reachable


def test_a_files_name_is_one_word_of_the_command(tmp_path):
    hostile = "../a $(reboot);'.tar.gz"
    words = shlex.split(readiness(candidate(name=hostile), status(tmp_path)).put)
    assert words == ["opensafe", "policy", "activate", os.path.basename(hostile)]
