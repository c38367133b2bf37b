"""What principals' roles let them do."""

from collections.abc import Collection

from opensafe.errors import NotPermitted
from opensafe.model.calls import Principal


def require_role(principal: Principal, what: str, roles: Collection[str]) -> None:
    """Raises NotPermitted, which says that `what` needs a role, unless the principal has one of them."""
    if set(roles).isdisjoint(principal.roles):
        raise NotPermitted(
            f"{what} needs a role",
            value=", ".join(principal.roles),
            limit=" or ".join(sorted(roles)),
            remedy="Use the socket of a principal with that role.",
        )
