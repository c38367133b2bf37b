"""A daemon that kills a part of itself at a step that a file names.

    python faults.py SETTINGS

The steps are functions of the daemon, wrapped before its processes begin, so that the code itself has nothing of
this. A process looks for the file `fault` in a directory of its own each time a step is reached, and dies by SIGKILL
where the file names that step: `before MODULE:NAME` or `after MODULE:NAME`, with a number in front for another time
than the first. It removes the file first, so that it dies once. With `failing MODULE:NAME` that function raises, and
the process ends by itself, as it does at any error that nobody expected.

Children get this text as the program that starts them, in place of the one in warden/children.py.
"""

import asyncio
import functools
import importlib
import json
import os
import pathlib
import runpy
import signal
import sys

WARDEN = (
    "opensafe.warden.decisions:Decisions.settled",
    "opensafe.warden.decisions:Decisions.check",
    "opensafe.warden.ledger:Ledger.append",
    "opensafe.warden.ledger:Ledger.durable",
    "opensafe.warden.checkpoints:Checkpoints._append",
    "opensafe.warden.checkpoints:Checkpoints._put",
    "opensafe.warden.checkpoints:Checkpoints._sign",
    "opensafe.warden.segments:Segments._open",
    "opensafe.warden.segments:Segments.begin_next",
    "opensafe.warden.segments:Segments.end",
    "opensafe.warden.sandbox.state:State.intend",
    "opensafe.warden.sandbox.state:State.forget",
    "opensafe.warden.sandbox.limits:_settings",
    "opensafe.warden.sandbox.limits:Cgroup.create",
    "opensafe.warden.sandbox.limits:Cgroup.kill",
    "opensafe.warden.sandbox.limits:Cgroup.remove",
    "opensafe.warden.kernel:unshare_network",
    "opensafe.warden.kernel:bind_mount",
    "opensafe.warden.network.namespaces:create",
    "opensafe.warden.network.namespaces:remove",
    "opensafe.warden.sandbox.spec:oci_spec",
    "opensafe.warden.sandbox.lifecycle:Lifecycle._write_bundle",
    "opensafe.warden.process:spawn",
    "opensafe.warden.sandbox.reports:_accept",
    "opensafe.warden.sandbox.runsc:Runsc.create",
    "opensafe.warden.sandbox.monitor:Monitor.watch",
    "opensafe.warden.sandbox.monitor:Monitor.expect",
    "opensafe.warden.sandbox.control:ControlDriver.start",
    "opensafe.warden.sandbox.control:ControlDriver.execute",
    "opensafe.warden.sandbox.control:ControlDriver.pause",
    "opensafe.warden.sandbox.control:ControlDriver.resume",
    "opensafe.warden.sandbox.control:ControlDriver.signal",
    "opensafe.warden.sandbox.control:_processes",
    "opensafe.warden.sandbox.control:_signal",
    "opensafe.warden.sandbox.ahead:Waiting.run",
    "opensafe.warden.sandbox.programs:Programs.start",
    "opensafe.warden.sandbox.programs:_decode",
    "opensafe.warden.sandbox.lifecycle:Lifecycle.create",
    "opensafe.warden.sandbox.lifecycle:Lifecycle.delete",
    "opensafe.warden.sandbox.lifecycle:remove",
    "opensafe.warden.warden:Warden._record_end",
    "opensafe.warden.warden:Warden.answer",
)
FRONT = (
    "opensafe.control.judge:Judge.judge",
    "opensafe.control.judge:Judge.decide",
    "opensafe.control.changes:Changes.record",
    "opensafe.control.changes:Changes.write",
    "opensafe.audit.log:AuditLog._put",
    "opensafe.audit.log:AuditLog._turn",
    "opensafe.warden.client:WardenClient.find_image",
    "opensafe.warden.client:WardenClient.next_segment",
    "opensafe.warden.client:WardenClient.create_sandbox",
    "opensafe.warden.client:WardenClient.delete_sandbox",
    "opensafe.warden.client:WardenClient.pause_sandbox",
    "opensafe.warden.client:WardenClient.resume_sandbox",
    "opensafe.warden.client:WardenClient.start",
    "opensafe.warden.client:WardenClient.wait",
    "opensafe.warden.client:WardenClient.kill",
    "opensafe.gate:Gate.submit",
    "opensafe.gate:Gate._execute",
    "opensafe.gate:Gate._write_outcome",
    "opensafe.gate:Gate._conclude",
    "opensafe.gate:Gate.recover",
    "opensafe.control.upkeep:Upkeep.reconcile",
    "opensafe.control.upkeep:Upkeep._dues",
)
HELPER = (
    "opensafe.monitor.watcher:Watcher.turn",
    "opensafe.monitor.watcher:Watcher._hear",
    "opensafe.monitor.watcher:Watcher._take",
    "opensafe.monitor.watcher:Watcher._read",
    "opensafe.monitor.watcher:Watcher._consider",
    "opensafe.monitor.watcher:Watcher._say",
    "opensafe.monitor.watcher:Watcher._forget",
)


def arm(targets, fault):
    """Wrap each target; `fault` is the file."""

    def reached(step):
        try:
            number, _, wanted = fault.read_text().partition(" ")
        except OSError:
            return
        if wanted != step:
            return
        if int(number) > 1:
            fault.write_text(f"{int(number) - 1} {wanted}")
            return
        fault.unlink()
        if step.startswith("failing"):
            raise OSError(step)
        os.kill(os.getpid(), signal.SIGKILL)

    for target in targets:
        module, _, path = target.partition(":")
        *owners, name = path.split(".")
        owner = functools.reduce(getattr, owners, importlib.import_module(module))
        setattr(owner, name, _wrapped(getattr(owner, name), target, reached))


def _wrapped(original, target, reached):
    if asyncio.iscoroutinefunction(original):

        @functools.wraps(original)
        async def stepped(*arguments, **options):
            reached(f"before {target}")
            reached(f"failing {target}")
            done = await original(*arguments, **options)
            reached(f"after {target}")
            return done

    else:

        @functools.wraps(original)
        def stepped(*arguments, **options):
            reached(f"before {target}")
            reached(f"failing {target}")
            done = original(*arguments, **options)
            reached(f"after {target}")
            return done

    return stepped


def _child():
    sys.path.insert(0, sys.argv.pop(1))
    module = sys.argv.pop(1)
    role = module.rpartition(".")[2]
    state = json.loads(sys.argv[3])["paths"]["state"]
    arm({"front": FRONT, "helper": HELPER}[role], pathlib.Path(state, role, "fault"))
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _daemon():
    from opensafe.config import load
    from opensafe.daemon import root
    from opensafe.warden import backoff, children

    settings = pathlib.Path(sys.argv[1])
    vars(backoff)["_MAX_S"] = backoff._FIRST_S  # many deaths are not one fault that repeats
    vars(children)["_BOOT"] = pathlib.Path(__file__).read_text()
    arm(WARDEN, pathlib.Path(load(settings).paths.state, "fault"))
    return root.main(settings)


if __name__ == "__main__":
    sys.exit(_child() if sys.argv[0] == "-c" else _daemon())
