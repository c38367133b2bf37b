"""A chained log shows every single change of it, and names the first bad record. CP-14, B44."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opensafe.model import chain


def lines_of(count):
    head, lines = chain.Head(), []
    for number in range(count):
        sealed = chain.seal(head, {"kind": "x", "n": number})
        head = sealed.head
        lines.append(sealed.line)
    return lines, head


def check(lines):
    return [link.index for link in chain.verify(lines)]


def test_an_untouched_log_verifies():
    lines, head = lines_of(5)
    assert check(lines) == [0, 1, 2, 3, 4]
    assert list(chain.verify(lines))[-1].leaf == head.leaf


@pytest.mark.parametrize(
    ("change", "bad"),
    [
        (lambda lines: [*lines[:2], lines[2].replace(b'"n":2', b'"n":9'), *lines[3:]], 2),
        (lambda lines: [*lines[:3], lines[3].replace(b'"n":3', b'"n":9'), lines[4]], 3),
        (lambda lines: [lines[0].replace(b'"n":0', b'"n":9'), *lines[1:]], 0),
        (lambda lines: [*lines[:2], *lines[3:]], 2),
        (lambda lines: [*lines[:2], lines[3], lines[2], lines[4]], 2),
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], 2),
        (lambda lines: [lines[0], chain.seal(chain.Head(1, "f" * 64), {"kind": "x"}).line, *lines[2:]], 1),
        (lambda lines: lines[1:], 0),
        (lambda lines: [*lines[:4], lines[4][:-1]], 4),
        (lambda lines: [*lines[:4], b" " + lines[4]], 4),
        (lambda lines: [*lines, b""], 5),
    ],
    ids=[
        "edit",
        "edit-last-but-one",
        "edit-first",
        "drop",
        "swap",
        "duplicate",
        "insert",
        "drop-first",
        "cut-line",
        "not-canonical",
        "empty-line",
    ],
)
def test_a_changed_log_is_named_at_its_first_bad_record(change, bad):
    lines, _ = lines_of(5)
    with pytest.raises(chain.ChainBrokenError) as caught:
        check(change(lines))
    assert caught.value.index == bad


def test_a_cut_tail_shows_against_a_head_only():
    lines, head = lines_of(5)
    links = list(chain.verify(lines[:3]))
    assert links[-1].leaf != head.leaf


def test_a_suffix_written_anew_shows_against_a_head_only():
    lines, head = lines_of(5)
    forged = chain.seal(chain.Head(4, list(chain.verify(lines[:4]))[-1].leaf), {"kind": "x", "n": 99})
    assert list(chain.verify([*lines[:4], forged.line]))[-1].leaf != head.leaf


def test_R45_a_torn_line_is_excused_by_the_record_that_accounts_for_it():
    lines, head = lines_of(2)
    torn = b'{"half":'
    sealed = chain.seal_torn(head, torn)
    assert check([*lines, torn, sealed.line]) == [0, 1, 2]


@pytest.mark.parametrize("other", [b'{"half":1', b""])
def test_a_torn_line_that_nothing_accounts_for_is_not(other):
    lines, head = lines_of(2)
    sealed = chain.seal_torn(head, b'{"half":')
    with pytest.raises(chain.ChainBrokenError):
        check([*lines, other, sealed.line])
    with pytest.raises(chain.ChainBrokenError):
        check([*lines, b'{"half":'])


def test_what_was_to_account_for_a_torn_line_can_tear_as_well():
    lines, head = lines_of(2)
    first = chain.seal_torn(head, b'{"half":').line[:20]
    tail = [b'{"half":', first, b"", b"{"]
    with pytest.raises(chain.UnaccountedError) as caught:
        check([*lines, *tail])
    assert caught.value.fragment == b"\n".join(tail)
    sealed = chain.seal_torn(head, caught.value.fragment)
    assert check([*lines, *tail, sealed.line]) == [0, 1, 2]
    for other in (tail[1:], [*tail, b""], [*tail[:2], b"x", b"{"]):
        with pytest.raises(chain.ChainBrokenError, match="does not account"):
            check([*lines, *other, sealed.line])


@given(st.data())
def test_any_flipped_byte_is_found(data):
    lines, head = lines_of(4)
    log = bytearray(b"\n".join(lines))
    at = data.draw(st.integers(0, len(log) - 1))
    log[at] ^= data.draw(st.integers(1, 255))
    try:
        leaves = [link.leaf for link in chain.verify(bytes(log).split(b"\n"))]
    except chain.ChainBrokenError:
        return
    # The last record is bound by nothing after it: there the head kept elsewhere tells.
    assert leaves[-1] != head.leaf
