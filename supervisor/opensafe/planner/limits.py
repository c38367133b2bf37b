"""Budgets of a run. The daemon's own (docs/reviews.md) hold beside them, and nothing here can widen those."""

from typing import Annotated

import msgspec

_Count = Annotated[int, msgspec.Meta(ge=1)]


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """How often in a row something is tried again, and the pauses between in seconds: each doubles the one before."""

    attempts: Annotated[int, msgspec.Meta(ge=0)]
    first_s: float
    most_s: float

    def pause(self, failures: int) -> float:
        """Seconds to wait after that many failures in a row."""
        return min(self.most_s, self.first_s * 2.0 ** min(failures - 1, 30))


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """turns: answers of the model. calls: tool calls. denials: how often one rule may deny before the run ends.
    mistakes: calls in a row that could not be judged. repeats: equal requests of the model in a row.
    calls_per_turn: what the model asks for beyond is answered unsent.

    arguments_bytes: of one call, as JSON; larger ones are answered unsent. output_bytes: of each stream, what the model
    is shown of it, head and tail.

    unavailable: the daemon is not there or takes no call now. crowded: a cap of it was met. sandbox: a lost one is
    replaced. model: its provider fails. model_s: seconds that it may take for an answer.
    """

    turns: _Count = 50
    calls: _Count = 100
    denials: _Count = 3
    mistakes: _Count = 5
    repeats: _Count = 5
    calls_per_turn: _Count = 16
    arguments_bytes: _Count = 1 << 20
    output_bytes: _Count = 16 << 10
    unavailable: Backoff = Backoff(attempts=10, first_s=0.2, most_s=10)
    crowded: Backoff = Backoff(attempts=5, first_s=0.5, most_s=10)
    sandbox: Backoff = Backoff(attempts=2, first_s=0.1, most_s=1)
    model: Backoff = Backoff(attempts=4, first_s=1, most_s=30)
    model_s: float = 600
