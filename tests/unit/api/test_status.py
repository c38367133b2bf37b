"""One table from errors to status, complete and without a leak."""

import msgspec
import pytest
from google.rpc import code_pb2, error_details_pb2  # type: ignore[import-untyped]  # ships no types

from opensafe import errors
from opensafe.api.status import TABLE, UNKNOWN_TEXT, to_status
from opensafe.model.decision import Action, RuleHit, Severity


def leaves(base=errors.OpenSafeError):
    below = [kind for kind in base.__subclasses__() if kind.__module__ == errors.__name__]
    return [base] if not below else [leaf for sub in below for leaf in leaves(sub)]


@pytest.mark.parametrize("kind", leaves(), ids=lambda kind: kind.__name__)
def test_every_error_a_request_can_meet_has_a_status(kind):
    status = to_status(kind("what happened", value="v", limit="l", remedy="Do this."))
    if issubclass(kind, errors.StartError):
        assert status.code == code_pb2.INTERNAL  # no request meets it
        return
    assert status.code not in (code_pb2.OK, code_pb2.UNKNOWN, code_pb2.INTERNAL)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain) == (kind.reason, "opensafe")
    assert dict(info.metadata) == {"message": "what happened", "value": "v", "limit": "l", "remedy": "Do this."}


def test_a_denial_tells_its_rules_as_far_as_headers_hold_them():
    hit = RuleHit(id="r", severity=Severity.HIGH, action=Action.BLOCK, reason="x" * 500)
    hits = [msgspec.structs.replace(hit, id=f"r{number}") for number in range(50)]
    status = to_status(errors.Denied("no", rules=hits, outcome="review_rejected"))
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    rules = msgspec.json.decode(info.metadata["rules"], type=list[RuleHit])
    assert (info.metadata["outcome"], rules) == ("review_rejected", hits[: len(rules)])
    assert 1 < len(rules) < 8
    assert len(status.SerializeToString()) < 8192


def test_what_is_not_ours_tells_nothing():
    status = to_status(RuntimeError("/etc/secret"))
    assert (status.code, status.message) == (code_pb2.INTERNAL, UNKNOWN_TEXT)
    assert not status.details


def test_no_row_of_the_table_is_hidden_by_one_above():
    for number, (kind, _) in enumerate(TABLE):
        assert not any(issubclass(kind, above) for above, _ in TABLE[:number]), kind


def test_reasons_are_unique():
    kinds = leaves()
    assert len({kind.reason for kind in kinds}) == len(kinds)
