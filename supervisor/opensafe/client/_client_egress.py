"""What a client can ask of the way out of sandboxes."""

from opensafe._proto.v1 import egress_pb2

from . import _egress
from ._connection import Connection
from ._egress import EgressConnections, EgressHosts, EgressReach


class EgressMethods(Connection):
    """Explained, and what it is used for. With the role operator, reviewer or auditor of all sandboxes, else of own."""

    async def explain_egress(self, host: str, sandbox_id: str = "") -> EgressReach:
        """Whether `host` (NAME or NAME:PORT) would be reached, and why. Nothing is asked of the world.

        With sandbox_id as things stand there now, else as if a call of yours that was granted the name ran. Raises
        InvalidArgument (not exactly one host), NotFound, Unavailable.
        """
        request = egress_pb2.ExplainEgressRequest(host=host, sandbox_id=sandbox_id)
        return _egress.reach(await self._ask(self._egress.ExplainEgress(request)))

    async def list_connections(self, sandbox_id: str = "") -> EgressConnections:
        """What is open now. Raises NotFound (no such sandbox, or no way out), Unavailable without a helper."""
        request = egress_pb2.ListConnectionsRequest(sandbox_id=sandbox_id)
        return _egress.connections(await self._ask(self._egress.ListConnections(request)))

    async def list_hosts(self, sandbox_id: str = "") -> EgressHosts:
        """What hosts were used for, since the sandbox or the helper was started. Raises likewise."""
        request = egress_pb2.ListHostsRequest(sandbox_id=sandbox_id)
        return _egress.hosts(await self._ask(self._egress.ListHosts(request)))
