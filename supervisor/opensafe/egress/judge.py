"""Judgement of connections and DNS questions, by the bundle in force at `gate/egress`."""

import msgspec


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox wants, as the gateway saw it.

    source: its address. layer: dns, tls, http or tcp. name: as the client sent it. sni, authority, method, path: where
    the layer has them. address: where it would be dialled, where that is known. label: as in EgressInput. bytes_sent,
    requests: of the session since the call's decision. again: it was allowed before, so an allow is not put on record.
    """

    source: str
    layer: str
    name: str
    port: int | None = None
    sni: str = ""
    authority: str = ""
    method: str = ""
    path: str = ""
    address: str = ""
    label: dict[str, int] = {}
    bytes_sent: int = 0
    requests: int = 0
    again: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict. name: canonical, "" where there is none. why: rule, value and remedy in one line, of a refusal."""

    allowed: bool
    name: str = ""
    exec_id: str = ""
    sandbox_id: str = ""
    why: str = ""
