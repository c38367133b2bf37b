"""The front: unprivileged, everything a client can talk to.

    front CONNECTION AUDIT SETTINGS KEYS

CONNECTION and AUDIT are descriptors from the warden, SETTINGS the checked
configuration as JSON (the file itself may lie where this user can't read), KEYS the trusted public keys as JSON.

Start: bundle, index, log (verified and folded), agreement with the warden about what lives, calls that an earlier
run left open ended as lost, then the sockets. Stop, on SIGTERM: NOT_SERVING, no new calls, running ones drained,
sockets closed, log closed.
"""

import asyncio
import contextlib
import gc
import pathlib
import signal
import socket
import sqlite3
import sys
from typing import Final

import msgspec
import structlog

from opensafe import __version__
from opensafe.api.server import Api, Services
from opensafe.audit.log import AuditLog
from opensafe.audit.segment import segment_paths
from opensafe.audit.shipping import Shipping
from opensafe.config import Config
from opensafe.control.activation import REFUSED, Activations
from opensafe.control.approved import Approved
from opensafe.control.audits import Audits
from opensafe.control.bans import Bans
from opensafe.control.breaches import record_breaches
from opensafe.control.changes import Changes
from opensafe.control.connections import record_connections
from opensafe.control.explanations import Explanations
from opensafe.control.history import History
from opensafe.control.judge import Judge
from opensafe.control.lookup import Lookup
from opensafe.control.permits import Permits
from opensafe.control.proofs import Proofs
from opensafe.control.refusals import Flow, Refusals
from opensafe.control.removals import Removals
from opensafe.control.reviews import Reviews
from opensafe.control.sandbox_list import SandboxList
from opensafe.control.sandboxes import Sandboxes
from opensafe.control.sessions import Sessions
from opensafe.control.shadow import Shadow
from opensafe.control.traffic import Traffic
from opensafe.control.upkeep import Upkeep
from opensafe.desk import Desk
from opensafe.errors import AuditError, BundleRefused, OpenSafeError, StaleIndex, StartError, Unavailable
from opensafe.gate import Gate
from opensafe.model import destination
from opensafe.model.calls import Principal
from opensafe.model.ids import now_us
from opensafe.model.records import Bundle, DaemonRecord
from opensafe.policy.preparer import Preparer
from opensafe.policy.reload import Loader
from opensafe.state.store import Store
from opensafe.telemetry.meters import Meters
from opensafe.telemetry.metrics import CONTENT_TYPE
from opensafe.telemetry.scrape import Endpoint, bind
from opensafe.telemetry.spans import Tracing
from opensafe.warden.client import WardenClient
from opensafe.warden.inotify import Watch
from opensafe.warden.protocol import REFUSES

from .log import configure
from .standing import Gauges

_HEARTBEAT_S: Final = 5.0
#: How long a thread that exports or waits for the disk may keep the event loop from the interpreter.
_SWITCH_S: Final = 0.0005
_STOP_GRACE_S: Final = 1.0

_log = structlog.get_logger()


class Front:
    """All parts of the front, made in `start`, ended in the reverse order by `close`."""

    def __init__(self, config: Config, keys: tuple[str, ...], preparer: Preparer) -> None:
        self._config = config
        self._keys = keys
        self._preparer = preparer
        self._stack = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._asked_to_stop = False

    async def start(self, connection: int, audit: int) -> None:
        """Make everything, in the order of the module's docstring."""
        config, stack, caps = self._config, self._stack, self._config.caps
        state = pathlib.Path(config.paths.state)
        own = state / "front"
        cache = own / "cache"
        cache.mkdir(mode=0o700, exist_ok=True)
        warden = WardenClient(socket.socket(fileno=connection))
        stack.push_async_callback(warden.close)
        told, meters = config.telemetry, Meters()
        tracing = Tracing.configured(
            told.otlp_endpoint,
            own,
            told.file_bytes,
            __version__,
            traces=told.traces,
            capture_content=told.capture_content,
            meters=meters if told.metrics else None,
        )
        stack.callback(tracing.close)
        store = Store(own / "index.sqlite")
        stack.callback(store.close)
        log = AuditLog(
            audit,
            segment_paths(state),
            meters.watching(store.fold),
            segment_bytes=config.audit.segment_bytes,
            next_segment=warden.next_segment,
        )
        stack.push_async_callback(log.close)
        await log.open(store.tip)
        meters.begin()
        loader = Loader(
            self._preparer,
            state,
            self._keys,
            cache,
            deadline_ms=config.policy.deadline_ms,
            memory_bytes=config.policy.memory_bytes,
        )
        activations = Activations(loader, log, store, warden, config.paths.bundle)
        loaded = await activations.begin()
        stack.push_async_callback(activations.close)
        bundle = Bundle(revision=loaded.bundle.revision, digest=loaded.bundle.digest)

        principals = {name: Principal(name=name, roles=settings.roles) for name, settings in config.principals.items()}
        history = History(store)
        judge = Judge(loaded.engine, bundle, log, history, tracing, caps.review_ttl_s, caps.permit_ttl_s)
        activations.lead(judge)
        refusals = Refusals(log, caps.refusals_per_s)
        sessions = Sessions(log, store, refusals, tracing, caps)
        changes = Changes(log, store)
        removals = Removals(changes, warden)
        sandboxes = Sandboxes(
            *(judge, store, sessions, changes, removals, refusals, warden, tracing, caps),
            way_out=config.egress.enabled,
        )
        upkeep = Upkeep(changes, removals, store, warden)
        reviews = Reviews(log, store, caps)
        flow = Flow(caps.arguments_bytes_per_s)  # one for all that is judged of a principal
        approved = Approved(judge, sessions, reviews, tracing, principals)
        permits = Permits(judge, log, store, sessions, reviews, approved, refusals, tracing, caps, flow)
        shadow = Shadow(log, loader.load_candidate)
        stack.push_async_callback(shadow.close)
        bans = Bans(log, store, principals)
        gate = Gate(
            judge,
            log,
            store,
            sessions,
            sandboxes,
            reviews,
            refusals,
            warden,
            tracing,
            caps,
            principals,
            flow,
        )
        desk = Desk(gate, approved, sessions, sandboxes, reviews, bans, refusals, store)
        await upkeep.reconcile()
        lost = await gate.recover()
        await log.append(self._record("started", bundle, lost))
        stack.push_async_callback(self._stopped, log, judge, upkeep)
        stack.push_async_callback(removals.close)

        checkpoint = state / "audit" / "checkpoint"
        watch = Watch(checkpoint)
        stack.callback(watch.close)
        destinations = [destination.parse(text) for text in config.audit.ship]
        shipping = Shipping(checkpoint, destinations, watch.changed, config.audit.ship_ca)

        lookup = Lookup(log, store, state)
        api = Api(
            Services(
                gate=gate,
                desk=desk,
                judge=judge,
                log=log,
                sessions=sessions,
                sandboxes=sandboxes,
                sandbox_list=SandboxList(log, store),
                reviews=reviews,
                bans=bans,
                permits=permits,
                explanations=Explanations(log, state),
                lookup=lookup,
                proofs=Proofs(lookup, state),
                audits=Audits(state),
                shadow=shadow,
                activations=activations,
                shipping=shipping,
                traffic=Traffic(judge, store, history, warden, config.egress),
                warden=warden,
            ),
            principals,
            pathlib.Path(config.paths.run) / "principals",
            caps.arguments_bytes,
            keepalive_s=config.service.keepalive_s,
            with_reflection=config.service.reflection,
            answered=meters.request,
        )
        await api.start()
        activations.on_settled = api.in_force
        await api.in_force(activations.last.state != REFUSED)
        stack.push_async_callback(self._drain, api, gate, refusals)
        if told.metrics:
            listener = bind(told.metrics, pathlib.Path(config.paths.run) / "metrics")
            gauges = Gauges(meters, judge, log, store, gate, activations, tracing, warden, caps)
            endpoint = Endpoint(listener, gauges.text, CONTENT_TYPE)
            await endpoint.start()
            stack.push_async_callback(endpoint.close)
        for work in (
            desk.watch_expiry(),
            permits.watch_expiry(),
            upkeep.watch_leases(),
            upkeep.watch_losses(),
            refusals.watch(),
            shadow.watch(),
            record_breaches(warden, log),
            *((record_connections(warden, log, tracing.egress.tell),) if config.egress.enabled else ()),
            self._heartbeat(warden, log, api),
            self._tell_failure(log, api),
            activations.watch(),
            shipping.run(),
        ):
            self._tasks.append(asyncio.create_task(work))
        gc.collect()
        gc.freeze()  # what serves, stays: each full collection would look at all of it, for some 30 ms
        _log.info("serving", bundle=bundle.revision, records=log.head.size, lost_calls=lost)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`, or until one of the tasks that keep the front alive fails."""
        stopping = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait({stopping, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await task
            self._asked_to_stop = True
        finally:
            stopping.cancel()

    def forget_index(self) -> None:
        """Remove the index: the next start folds the whole log into a fresh one."""
        for path in (pathlib.Path(self._config.paths.state) / "front").glob("index.sqlite*"):
            path.unlink()

    async def close(self) -> None:
        """Stop."""
        await self._stack.aclose()

    async def _drain(self, api: Api, gate: Gate, refusals: Refusals) -> None:
        await api.not_serving()
        await gate.drain(self._config.service.drain_s)
        await api.stop(_STOP_GRACE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await refusals.flush()
        except AuditError as error:
            _log.error("refusals are not on record", error=str(error))

    async def _stopped(self, log: AuditLog, judge: Judge, upkeep: Upkeep) -> None:
        if not self._asked_to_stop:  # what becomes of the sandboxes, the next start hears from the warden
            return
        try:
            await upkeep.end_all()
            await log.append(self._record("stopped", judge.bundle, 0))
        except AuditError as error:
            _log.error("the stop is not on record", error=str(error))

    @staticmethod
    async def _heartbeat(warden: WardenClient, log: AuditLog, api: Api) -> None:
        while True:
            blocked = await warden.serving()
            await api.executes(not blocked and log.failure is None)
            await asyncio.sleep(_HEARTBEAT_S)

    @staticmethod
    async def _tell_failure(log: AuditLog, api: Api) -> None:
        await log.failed.wait()
        _log.error("nothing executes any more", error=str(log.failure))
        await api.executes(False)
        await asyncio.Event().wait()  # a front that serves no calls still answers

    @staticmethod
    def _record(state: str, bundle: Bundle, lost: int) -> DaemonRecord:
        return DaemonRecord(
            time_us=now_us(), state=state, version=__version__, bundles={"opensafe": bundle}, lost_calls=lost
        )


async def _main(preparer: Preparer, connection: int, audit: int, settings: str, keys: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    trusted = msgspec.json.decode(keys, type=tuple[str, ...])
    front = Front(msgspec.json.decode(settings, type=Config), trusted, preparer)
    try:
        try:
            await front.start(connection, audit)
        except (StartError, BundleRefused, AuditError, Unavailable):
            raise
        except Exception as error:  # another start would meet the same
            raise StartError(
                f"the front could not start: {type(error).__name__}: {error}",
                remedy="See that the service user owns the directory `front` below paths.state, and what is in it.",
            ) from error
        await front.run(stop)
    except StaleIndex as error:
        _log.error("the index is built again", error=str(error))
        front.forget_index()
        raise
    finally:
        await front.close()


def main(arguments: list[str]) -> int:
    """Run the front; 78 where another start would not help."""
    preparer = Preparer()  # before there are threads or a loop
    sys.setswitchinterval(_SWITCH_S)
    configure("front")
    connection, audit, settings, keys = arguments
    try:
        asyncio.run(_main(preparer, int(connection), int(audit), settings, keys))
    except StaleIndex:
        return 1  # the warden starts the front again, which then folds the log anew
    except (StartError, BundleRefused, AuditError) as error:
        _log.error("refuses to start", error=str(error))
        return REFUSES
    except (OpenSafeError, OSError, sqlite3.Error) as error:
        _log.error("ends", error=str(error) or type(error).__name__)
        return 1
    finally:
        preparer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
