"""The network probes' controls: the same attempts in the open do get out, or a contained probe would mean nothing."""

import pytest
import pytest_asyncio

from opensafe.proof.escape.network.probes import PROBES
from opensafe.proof.escape.network.stage import Stage
from opensafe.proof.escape.network.suite import Suite
from opensafe.proof.escape.probe import Run, Verdict, judge
from opensafe.proof.escape.report import summary
from opensafe.proof.world import World

#: The ids of the catalogue's network rows.
ROWS = {
    *("NW-01", "NW-02", "NW-03", "NW-04", "NW-05", "NW-06", "NW-07", "NW-09", "NW-10", "NW-11", "NW-12", "NW-14"),
    *("NW-15", "NW-17", "NW-19", "NW-20", "NW-21", "NW-23", "NW-24", "NW-25", "NW-26", "NW-28", "NW-29", "NW-30"),
    *("NW-06t", "NW-15t"),  # what ends as LIMIT otherwise, where TLS ends in the gateway
}


def test_every_row_has_its_probe():
    assert {probe.id for probe in PROBES} == ROWS
    assert len(PROBES) == len(ROWS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def results():
    async with World.open() as world:
        made = await Suite(Stage(world, None, None, "base"), only_controls=True).run(PROBES, 4)
    return {result.id: result for result in made}


@pytest.mark.root
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("row", sorted(ROWS))
async def test_the_control_gets_out(results, row):
    result = results[row]
    assert result.control.began
    assert result.control.finished
    assert result.control_breached, result.control.hints
    assert result.verdict is Verdict.INCONCLUSIVE  # without a run in a sandbox nothing is contained


TRIED = Run(began=True, finished=True)
OUT = Run(began=True, finished=True, found="a packet")
PROBE = PROBES[0]
LIMITED = next(probe for probe in PROBES if probe.limit)


@pytest.mark.parametrize(
    ("probe", "run", "control", "verdict"),
    [
        (PROBE, TRIED, OUT, Verdict.CONTAINED),
        (PROBE, TRIED, TRIED, Verdict.INCONCLUSIVE),
        (PROBE, TRIED, Run(began=False, finished=True, found="a packet"), Verdict.INCONCLUSIVE),
        (PROBE, OUT, OUT, Verdict.BREACHED),
        (PROBE, OUT, TRIED, Verdict.BREACHED),
        (PROBE, Run(began=False, finished=True), OUT, Verdict.INCONCLUSIVE),
        (PROBE, Run(began=True, finished=False), OUT, Verdict.INCONCLUSIVE),
        (PROBE, Run(began=True, finished=True, fault="no daemon"), OUT, Verdict.INCONCLUSIVE),
        (PROBE, Run(began=False, finished=False, found="a packet"), OUT, Verdict.BREACHED),
        (LIMITED, OUT, OUT, Verdict.LIMIT),
        (LIMITED, TRIED, OUT, Verdict.CONTAINED),
    ],
)
def test_only_what_was_tried_and_would_have_been_seen_is_contained(probe, run, control, verdict):
    assert judge(probe, [run], control).verdict is verdict


def test_a_summary_is_good_only_where_all_ran_and_every_control_got_out():
    good = judge(PROBE, [TRIED], OUT)
    assert summary(1, [good])["ok"]
    assert summary(1, [judge(LIMITED, [OUT], OUT)])["ok"]
    assert not summary(2, [good])["ok"]
    assert not summary(0, [])["ok"]
    unseen = Run(began=False, finished=True, found="a packet")
    for bad in (
        judge(PROBE, [OUT], OUT),
        judge(PROBE, [TRIED], TRIED),
        judge(LIMITED, [OUT], TRIED),
        judge(LIMITED, [OUT], unseen),
    ):
        assert not summary(1, [bad])["ok"]
