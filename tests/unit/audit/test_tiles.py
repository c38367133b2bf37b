"""Proofs out of what is kept of the tree are those of the whole tree, however the log grew meanwhile."""

import pytest

from opensafe.audit import tiles
from opensafe.audit.checkpoints import read_key
from opensafe.audit.past import ahead
from opensafe.audit.proofs import check, checkpoint_of, prove_record
from opensafe.audit.segment import segment_path
from opensafe.audit.tiles import Tiles
from opensafe.errors import AuditError
from tests.harness.records import refusal
from tests.harness.state import State


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "_TILE", 4)
    monkeypatch.setattr(tiles, "_PIECE_BYTES", 700)


def proven(state, kept, index):
    note, made = checkpoint_of(state.path)
    while kept.size < made.size:
        kept.extend(made.size)
    [wanted] = ahead(state.path, index, index + 1, 1)
    return kept.prove(wanted, note, made)


def test_each_proof_of_a_growing_log_is_that_of_the_whole_tree(tmp_path):
    state, kept = State(tmp_path / "state"), None
    for size in range(1, 23):
        state.record(refusal(size))
        if size % 9 == 0:
            state.turn()
        state.sign()
        if kept is None or size % 7 == 0:  # it is begun anew, and grows by one and by several
            kept = Tiles(state.path)
        for index in range(size):
            proof = proven(state, kept, index)
            assert proof == prove_record(state.path, index)
            assert check(proof, read_key(state.key)).index == index


def test_a_record_that_was_changed_is_not_proven(tmp_path):
    state = State(tmp_path / "state")
    for number in range(10):
        state.record(refusal(number))
    state.sign()
    proven(state, Tiles(state.path), 2)
    path = segment_path(state.path, 0)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[7] = lines[7].replace(b'"count":1', b'"count":2')
    path.write_bytes(b"".join(lines))
    for index in (2, 7):
        with pytest.raises(AuditError, match="not the one that the checkpoint signed"):
            proven(state, Tiles(state.path), index)
