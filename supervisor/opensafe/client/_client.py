"""The client itself: one connection to one principal's socket, one method an operation of the daemon.

Every method raises what `opensafe.errors` names: RequestError where the request can't be served, Unavailable
where the daemon is not there or goes away, and the platform's own failures. Nothing is sent twice: only the caller
knows whether a call_id was used.
"""

from ._client_audit import AuditMethods
from ._client_calls import CallMethods
from ._client_egress import EgressMethods
from ._client_people import PeopleMethods
from ._client_policy import PolicyMethods
from ._client_sandboxes import SandboxMethods


class Client(SandboxMethods, CallMethods, PolicyMethods, PeopleMethods, AuditMethods, EgressMethods):
    """A connection. Use it as an asynchronous context manager; all methods belong to one event loop."""
