"""What calls use up, as integers that only ever grow.

One type serves records, the index and the budget shown to policy. Wall time is kept in microseconds, so that many
short calls add up; policy sees whole seconds. Sums stop at the largest integer that canonical JSON can carry: a
counter at its end stays there and never becomes small again.
"""

from typing import Annotated, Final

import msgspec

from .canonical import MAX_SAFE_INTEGER

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_SAFE_INTEGER)]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """calls: judged, whatever the verdict. wall_us: run time. output_bytes: what guests wrote. requests, egress_bytes,
    ingress_bytes: connections, bytes sent to the network and received. tokens, cost_microusd: as clients declared them.
    """

    calls: Count = 0
    wall_us: Count = 0
    output_bytes: Count = 0
    requests: Count = 0
    egress_bytes: Count = 0
    ingress_bytes: Count = 0
    tokens: Count = 0
    cost_microusd: Count = 0

    def plus(self, other: "Usage") -> "Usage":
        """The sum of both."""
        return Usage(**{name: min(getattr(self, name) + getattr(other, name), MAX_SAFE_INTEGER) for name in FIELDS})

    def as_budget(self) -> dict[str, int]:
        """Under the keys of BudgetInput: whole seconds `wall_s` in place of `wall_us`."""
        return {
            "calls": self.calls,
            "wall_s": self.wall_us // 10**6,
            "output_bytes": self.output_bytes,
            "requests": self.requests,
            "egress_bytes": self.egress_bytes,
            "ingress_bytes": self.ingress_bytes,
            "tokens": self.tokens,
            "cost_microusd": self.cost_microusd,
        }


FIELDS: Final = Usage.__struct_fields__


class HostUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a session used of the network with one host: connections, bytes sent and received."""

    requests: Count = 0
    egress_bytes: Count = 0
    ingress_bytes: Count = 0

    def plus(self, other: "HostUse") -> "HostUse":
        """The sum of both."""
        return HostUse(
            requests=min(self.requests + other.requests, MAX_SAFE_INTEGER),
            egress_bytes=min(self.egress_bytes + other.egress_bytes, MAX_SAFE_INTEGER),
            ingress_bytes=min(self.ingress_bytes + other.ingress_bytes, MAX_SAFE_INTEGER),
        )

    def at_least(self, other: "HostUse") -> "HostUse":
        """The larger of both, figure by figure."""
        return HostUse(
            requests=max(self.requests, other.requests),
            egress_bytes=max(self.egress_bytes, other.egress_bytes),
            ingress_bytes=max(self.ingress_bytes, other.ingress_bytes),
        )


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A session's own ceilings, beside the site's: the lower one counts, so these can only tighten. None: no own one.

    Names are the keys of BudgetInput.
    """

    calls: Count | None = None
    wall_s: Count | None = None
    output_bytes: Count | None = None
    requests: Count | None = None
    egress_bytes: Count | None = None
    ingress_bytes: Count | None = None
    tokens: Count | None = None
    cost_microusd: Count | None = None

    def as_budget(self) -> dict[str, int]:
        """Those that are set."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
