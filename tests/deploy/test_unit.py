"""The systemd unit: valid, and as confined as it says."""

import re
import subprocess
from pathlib import Path

import pytest

from opensafe import config

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "systemd" / "opensafe.service"
NIGHTLY = ROOT / "deploy" / "systemd" / "opensafe-redteam.service"
CONSOLE = ROOT / "deploy" / "systemd" / "opensafe-console.service"
TIMER = NIGHTLY.with_suffix(".timer")
SYSUSERS = ROOT / "deploy" / "systemd" / "opensafe.sysusers.conf"

# Out of 100, as `systemd-analyze security` counts. What is left is root, namespaces, cgroups and the network.
EXPOSURE = 54
#: What is left is the network, which is loopback's.
CONSOLE_EXPOSURE = 14


def _analyze(*arguments):
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True)


@pytest.fixture
def installed(tmp_path):
    """The unit with programs that exist, which is what `verify` asks for besides the syntax."""
    unit = tmp_path / "opensafe.service"
    unit.write_text(UNIT.read_text().replace("/opt/opensafe/bin/opensafe", "/bin/true"))
    return unit


def test_the_unit_is_valid(installed):
    verified = _analyze("verify", "--man=no", str(installed))
    assert (verified.returncode, verified.stderr) == (0, "")


def test_an_unknown_setting_would_be_seen(installed):
    installed.write_text(installed.read_text().replace("ProtectSystem=strict", "ProtectTheSystem=strict"))
    assert "ProtectTheSystem" in _analyze("verify", "--man=no", str(installed)).stderr


def test_the_exposure_stays_below_its_threshold():
    analyzed = _analyze("security", "--offline=true", f"--threshold={EXPOSURE}", str(UNIT))
    assert analyzed.returncode == 0, analyzed.stdout


def test_the_exposure_of_an_unconfined_unit_is_above_it(tmp_path):
    unit = tmp_path / "opensafe.service"
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    assert _analyze("security", "--offline=true", f"--threshold={EXPOSURE}", str(unit)).returncode != 0


def test_the_nightly_evaluation_is_valid_and_timed(tmp_path):
    for source in (NIGHTLY, TIMER):
        (tmp_path / source.name).write_text(source.read_text().replace("/opt/opensafe/bin/opensafe", "/bin/true"))
    verified = _analyze("verify", "--man=no", *map(str, sorted(tmp_path.iterdir())))
    assert (verified.returncode, verified.stderr) == (0, "")
    (when,) = re.findall("^OnCalendar=(.*)$", TIMER.read_text(), re.MULTILINE)
    assert _analyze("calendar", when).returncode == 0
    assert TIMER.stem == NIGHTLY.stem, "the timer starts the unit of its name"


def test_the_nightly_evaluation_is_as_confined_as_the_daemon():
    analyzed = _analyze("security", "--offline=true", f"--threshold={EXPOSURE}", str(NIGHTLY))
    assert analyzed.returncode == 0, analyzed.stdout

    def taken(unit):
        text = unit.read_text().partition("# --- what is taken away ---")[2].partition("# --- what stays")[0]
        return {line for line in text.splitlines() if "=" in line and not line.startswith("#")}

    assert taken(NIGHTLY) - taken(UNIT) == {"ReadWritePaths=/run /var/lib"}
    assert taken(UNIT) <= taken(NIGHTLY)


def test_the_console_is_valid_and_has_next_to_nothing(tmp_path):
    unit = tmp_path / CONSOLE.name
    unit.write_text(CONSOLE.read_text().replace("/opt/opensafe/bin/opensafe", "/bin/true"))
    verified = _analyze("verify", "--man=no", str(unit))
    assert (verified.returncode, verified.stderr) == (0, "")
    analyzed = _analyze("security", "--offline=true", f"--threshold={CONSOLE_EXPOSURE}", str(CONSOLE))
    assert analyzed.returncode == 0, analyzed.stdout
    settings = dict(line.split("=", 1) for line in CONSOLE.read_text().splitlines() if "=" in line and line[0] != "#")
    assert settings["CapabilityBoundingSet"] == ""
    assert re.search(rf"^u {settings['User']} ", SYSUSERS.read_text(), re.MULTILINE)


def test_the_accounts_are_those_that_the_daemon_drops_to(tmp_path):
    (tmp_path / "etc").mkdir()
    made = subprocess.run(
        ["systemd-sysusers", f"--root={tmp_path}", "--dry-run", str(SYSUSERS)], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    for user in (config.Config().service.user, config.Config().egress.user):
        assert re.search(rf"Creating user '{user}' .* with UID", made.stderr + made.stdout)


def test_the_example_configuration_is_accepted_and_says_the_defaults(tmp_path):
    example = ROOT / "deploy" / "opensafe.toml"
    assert config.load(example) == config.Config()

    spelled_out = tmp_path / "opensafe.toml"
    spelled_out.write_text(re.sub(r"^# (\w+ = )", r"\1", example.read_text(), flags=re.MULTILINE))
    assert config.load(spelled_out) == config.Config()
