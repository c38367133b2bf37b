"""A daemon as docs/guides/inspect.md sets one up for evaluations: its policy data, its principals, its image."""

import pathlib
import re
import subprocess

import pytest

from opensafe.image import place
from opensafe.integrations.inspect import OpenSafeSandboxConfig, OpenSafeSandboxEnvironment
from opensafe.proof.private import PREFIX
from tests.harness.daemon import ROOT, running
from tests.harness.policy import site_bundle

GUIDE = (ROOT / "docs/guides/inspect.md").read_text()
USER = "inspect-ai-test-exec-as-user"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language):
    """The guide's blocks in a language."""
    return [text for found, text in _BLOCK.findall(GUIDE) if found == language]


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """The shipped image with the user and the `adduser` that the guide adds."""
    images = pathlib.Path("/var/lib", f"opensafe-images-{tmp_path_factory.getbasetemp().name}")
    try:
        with place.staged(images, "base") as image:
            subprocess.run(["cp", "-a", f"{PREFIX}/images/base/rootfs/.", image.rootfs], check=True)
            subprocess.run(["useradd", "--root", image.rootfs, "--uid", "1500", "--create-home", USER], check=True)
            adduser = image.rootfs / "usr/local/sbin/adduser"
            adduser.write_text(blocks("sh")[0])
            adduser.chmod(0o755)
        yield images
    finally:
        subprocess.run(["rm", "-rf", images], check=True)


@pytest.fixture(scope="session")
def evaluations(images, tmp_path_factory):
    """A daemon for evaluations."""
    names: dict = {}
    exec("\n".join(block for block in blocks("python") if "def for_evaluations" in block), names)
    bundle, key = site_bundle(tmp_path_factory.mktemp("bundle"), change=names["for_evaluations"])

    def prepare(daemon):
        text = daemon.settings.read_text().replace(f'"{daemon.paths.images}"', f'"{images}"')
        for principal, role in (("evaluator", "evaluator"), ("judge", "reviewer")):
            text = text.replace("[service]", f'[principals.{principal}]\nroles = ["{role}"]\n[service]', 1)
        daemon.settings.write_text(text)

    with running(prepare, bundle=bundle, key=key) as daemon:
        yield daemon


@pytest.fixture
def config(evaluations):
    """Makes the config of an evaluator whose reviewer is the judge."""

    def make(**more):
        return OpenSafeSandboxConfig(
            **{
                "socket": str(evaluations.socket_of("evaluator")),
                "reviewer_socket": str(evaluations.socket_of("judge")),
                **more,
            }
        )

    return make


@pytest.fixture
async def open_sandbox():
    """Makes sandboxes as a sample would, and cleans them up as a sample would."""
    made = []

    async def make(config):
        environments = await OpenSafeSandboxEnvironment.sample_init("a-task", config, {})
        made.append(environments)
        return environments["default"]

    yield make
    for environments in made:
        await OpenSafeSandboxEnvironment.sample_cleanup("a-task", None, environments, False)
