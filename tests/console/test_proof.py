"""The screen Red-team scenarios: reports as they lie in a directory, campaigns as they go on, and runs."""

import json

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.harness.browser import axe, shot

HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[31m"


def _share(hits, of):
    return {"hits": hits, "of": of, "rate": hits / of, "low": 0.25, "high": 0.999}


def _report(kind, summary, details):
    return {
        "schema": f"opensafe.{kind}/1",
        "version": "0.1.0",
        "environment": {"bundle": "1796-abc"},
        "summary": {"ok": True, **summary},
        "details": details,
    }


def _redteam(rate, **details):
    summary = {
        "block_rate": rate, "block_rate_low": rate - 0.01, "block_rate_high": 1, "malicious": 240,
        "false_block_rate": 0.004, "false_block_rate_low": 0.001, "false_block_rate_high": 0.02, "benign": 480,
        "goal_block_rate": 0.995, "goal_false_block_rate": 0.01,
    }  # fmt: skip
    families = {"approval": _share(51, 52), "exfiltration": _share(869, 869)}
    honest = {"Bash": _share(12, 3728), "twins of approval": _share(1, 8)}
    return _report("redteam", summary, {"families": families, "honest": honest, **details})


def _probe(number, verdict, layer, *, out=True, title="read a file of the host"):
    return {
        "id": f"FS-{number:02}", "boundary": "filesystem", "title": title, "severity": "host-leak", "verdict": verdict,
        "control_breached": out, "layer": layer, "reason": "", "attacks": ["T1083"],
        "runs": [{"opened": [], "layer": layer}, {"opened": ["policy"], "layer": "not there"}],
    }  # fmt: skip


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Reports of every kind, one that is damaged, one of something else, and a campaign under way."""
    place = tmp_path_factory.mktemp("reports")

    def put(name, content):
        (place / name).write_text(json.dumps(content))

    compared = {
        "baseline_version": "0.1.0",
        "rates": [{"name": "block_rate", "before": 0.991, "now": 0.998, "worse": False}],
        "missed_now": [HOSTILE],
        "missed_no_more": ["pe-7"],
        "held_out_worse": False,
    }
    put("redteam-20260130T020000.json", _redteam(0.991))
    put("redteam-20260131T020000.json", _redteam(0.998, missed=["pe-9"], baseline=compared))
    probes = [_probe(1, "contained", "policy: block by x"), _probe(2, "breached", "", out=False, title=HOSTILE)]
    put("escape-20260131T030000.json", _report("escape", {"planned": 2, "controls_breached": 1, "ok": False}, probes))
    campaign = {"planted": [{"name": "the canary is mounted", "missing": []}], "findings": [], "oracles": {}}
    figures = {"completed": 8000, "escapes": 0, "escape_rate_upper_95": 0.00037, "planted": 5, "planted_raised": 5}
    put("fuzz-campaign-20260131T040000.json", _report("fuzz-campaign", figures, campaign))
    mutants = [{"target": "F1", "mutant": "F1-size", "says": "no bound", "executed": 41, "broken": "b", "why": ""}]
    put("fuzz-mutants-20260131T050000.json", _report("fuzz-mutants", {"planned": 1, "killed": 1}, mutants))
    put("decision.json", _report("bench-decision", {}, {}))
    (place / f"torn{HOSTILE.replace('/', '')}.json").write_text("{")
    (place / "night").mkdir()
    (place / "night" / "campaign.json").write_text('{"runs": 8000, "seed": 8, "size": 100, "corpus": ""}')
    (place / "night" / "batches.jsonl").write_text('{"number": 0, "kind": "gated", "completed": 100}\n')
    return place


@pytest.fixture(scope="module")
def arguments(directory):
    return (f"--reports={directory}",)


@pytest_asyncio.fixture(loop_scope="module")
async def page(console):
    return await console.page("/proof")


async def test_the_last_evaluation_stands_there_by_family_with_both_rates(page):
    red = page.locator("#redteam")
    await expect(red.locator(".strip")).to_contain_text("99.80\u00a0%")
    await expect(red.locator(".strip")).to_contain_text("of 240, goal at least 99.5\u00a0%")
    await expect(red.locator(".strip")).to_contain_text("0.40\u00a0%")
    row = red.locator("tr", has_text="approval")
    await expect(row.locator("td.number").first).to_have_text("51\u2009/\u200952")
    await expect(row.locator("td.number").last).to_have_text("1\u2009/\u20098")
    await expect(red.locator("tr", has_text="Bash")).to_contain_text("12\u2009/\u20093728")
    await expect(red.get_by_role("img", name="2 reports, from 99.10\u00a0% to 99.80\u00a0%")).to_be_visible()


async def test_what_changed_since_the_report_before_is_said(page):
    red = page.locator("#redteam")
    await expect(red).to_contain_text("99.10\u00a0% → 99.80\u00a0%")
    await red.get_by_text("Missed now: 1").click()
    await expect(red).to_contain_text(r"<img src=x onerror=alert(1)>\u202e\x1b[31m")
    assert await page.locator("img").count() == 0


async def test_the_escape_suite_stands_there_by_boundary_and_by_layer(page):
    escape = page.locator("#escape")
    await expect(escape).to_contain_text("1 of 2 attempts contained; 1 controls got out")
    await expect(escape.locator("tr", has_text="file system").locator("td")).to_have_text(
        ["1", "1", "0", "0", "1\u2009/\u20092"]
    )
    await expect(escape.locator("tr", has_text="policy").locator("td.number")).to_have_text(["1", "0"])
    await expect(escape.locator("tr", has_text="sandbox (gVisor)").locator("td.number")).to_have_text(["0", "1"])
    await expect(escape.locator(".odd-ones")).to_contain_text("breached")
    await page.get_by_role("link", name="Every probe").click()
    await expect(page.get_by_role("row", name="FS-02")).to_contain_text("control held")
    assert await axe(page) == []


async def test_campaign_and_mutants_stand_there(page):
    await expect(page.locator("#campaign")).to_contain_text("at most 0.037\u00a0% (95 %)")
    await expect(page.locator("#campaign")).to_contain_text("the canary is mounted raised")
    await expect(page.locator("#mutants")).to_contain_text("1 of 1 faults")


async def test_what_is_no_report_is_left_out_with_a_line(page):
    reports = page.locator("#reports")
    await expect(reports.locator("tbody tr")).to_have_count(5)
    await expect(reports).to_contain_text("decision.json no report of proof")
    await expect(reports).to_contain_text(r"\u202e\x1b[31m.json")


async def test_a_campaign_is_seen_to_go_on(page, directory):
    progress = page.locator("#progress")
    await expect(progress).to_contain_text("100 of 8000 runs")
    with (directory / "night" / "batches.jsonl").open("a") as file:
        file.write('{"number": 1, "kind": "shipped", "completed": 99, "findings": [{"oracle": 1, "what": "w"}]}\n')
    await expect(progress).to_contain_text("199 of 8000 runs")
    await expect(progress).to_contain_text("1 raised")


@pytest.mark.timeout(900)
async def test_a_run_is_started_followed_and_stopped_and_another_keeps_its_report(page, directory):
    run = page.locator("#run")
    before = set(directory.glob("redteam-*.json"))
    await run.get_by_role("button", name="Start").click()
    await expect(run).to_contain_text("Single calls, judged goes on since")
    await expect(run.get_by_role("log")).to_contain_text("calls", timeout=60_000)
    await run.get_by_role("button", name="Stop").click()
    await expect(run).to_contain_text("stopped by reviewer", timeout=60_000)
    assert set(directory.glob("redteam-*.json")) == before
    await run.get_by_role("button", name="Start").click()
    await expect(run).to_contain_text("all holds", timeout=600_000)
    (kept,) = set(directory.glob("redteam-*.json")) - before
    await run.get_by_role("link").click()
    await expect(page.locator("#reports")).to_contain_text(kept.name)
    kept.unlink()


@pytest.mark.parametrize(("principal", "may"), [("operator", True), ("second", True), ("agent", False)])
async def test_operators_and_reviewers_may_start_runs_and_others_are_told(console, people, principal, may):
    page = await console.page("/proof", principal=principal)
    if may:
        await expect(page.get_by_role("button", name="Start")).to_have_count(1)
        return
    await expect(page.get_by_role("alert")).to_contain_text("operator, reviewer or auditor")
    token = await page.locator("form[action='/sign-out'] [name=csrf]").get_attribute("value")
    for path in ("/proof/runs", "/proof/stop"):
        answer = await page.evaluate(
            "([path, csrf]) => fetch(path, {method: 'POST', body: new URLSearchParams({csrf, kind: 'policy'})})"
            ".then(async answer => [answer.status, await answer.text()])",
            [path, token],
        )
        assert answer[0] == 403
        assert "operator, reviewer or auditor" in answer[1]
    assert len(await people.take()) == 3


async def test_a_form_without_its_token_starts_nothing(page, people):
    status = await page.evaluate(
        "() => fetch('/proof/runs', {method: 'POST', body: new URLSearchParams({kind: 'policy'})}).then(a => a.status)"
    )
    assert status == 403
    await page.reload()
    await expect(page.locator("#stop-run")).to_have_count(0)
    assert len(await people.take()) == 1


@pytest.mark.parametrize("name", ["none.json", "..%2F..%2Fetc%2Fpasswd", "decision.json"])
async def test_a_report_that_is_not_there_is_not_found(console, people, name):
    page = await console.page(f"/proof/reports/{name}")
    await expect(page.locator("body")).to_contain_text("no such report" if name.endswith("json") else "Not Found")
    (fault,) = await people.take()
    assert "404" in fault


@pytest.mark.parametrize("language", ["en", "ja", "es"])
@pytest.mark.parametrize(("narrow", "dark"), [(False, False), (True, True)])
async def test_everybody_can_use_it(console, language, narrow, dark):
    page = await console.page("/proof", narrow=narrow, dark=dark, language=language)
    assert await axe(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if language == "en":
        await shot(page, f"proof-{'narrow-dark' if narrow else 'wide-light'}", whole=True)
