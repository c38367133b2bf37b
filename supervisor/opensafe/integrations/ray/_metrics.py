"""What the pool tells Ray's metrics, which Ray exports to Prometheus. `stats` has the same without them."""

from ray.util.metrics import Counter, Gauge


class Metrics:
    """Counters and gauges of one pool."""

    def __init__(self, agent: str) -> None:
        tags = {"agent": agent}
        self._rollouts = Counter("opensafe_rollouts", "Rollouts that ended.", tag_keys=("agent", "status"))
        self._claims = Gauge("opensafe_rollout_claims", "Sandboxes that are claimed.", tag_keys=("agent", "host"))
        for metric in (self._rollouts, self._claims):
            metric.set_default_tags(tags)

    def ended(self, status: str) -> None:
        """A rollout ended."""
        self._rollouts.inc(tags={"status": status})

    def claims(self, host: str, count: int) -> None:
        """How many claims a host has."""
        self._claims.set(count, tags={"host": host})
