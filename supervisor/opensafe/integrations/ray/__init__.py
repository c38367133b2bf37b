"""Rollouts in the sandboxes of many hosts, over Ray: an actor on each host is the client of that host's daemon.

    async with RolloutPool("trainer") as pool:
        async for outcome in pool.map(rollout, tasks):
            ...

What the driver sends has its call_id before it is sent, so that neither a lost actor nor a repeated request executes
anything twice. A host that is lost takes its rollouts with it; one of which nothing was executed starts elsewhere.
"""

try:
    import ray  # noqa: F401 - to say what to install, where it is missing
except ImportError as error:
    raise ImportError("opensafe.integrations.ray needs Ray: pip install 'opensafe[ray]'") from error

from ._claim import CallOptions, Claim
from ._pool import HostStats, PoolStats, RolloutPool
from ._rollouts import RolloutOutcome, RolloutStatus
from ._sent import HostLost, NoHostLeft, SentCall

__all__ = [
    "CallOptions",
    "Claim",
    "HostLost",
    "HostStats",
    "NoHostLeft",
    "PoolStats",
    "RolloutOutcome",
    "RolloutPool",
    "RolloutStatus",
    "SentCall",
]
