"""What in a content looks like a secret, by the shape that its issuer gave it.

Only shapes that are hardly ever anything else: a fixed prefix and a length, or a PEM armour. Linear in the content.
The names found are kept beside the content's digest when it is sealed, so that policy and replay see the same.
"""

import re
from typing import Final

_SHAPES: Final = {
    "private_key": rb"-----BEGIN (?:RSA |EC |DSA |OPENSSH |ENCRYPTED |PGP )?PRIVATE KEY(?: BLOCK)?-----",
    "aws_key": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "github_token": rb"\bgh[pousr]_[A-Za-z0-9]{36}\b|\bgithub_pat_[A-Za-z0-9_]{60}",
    "gitlab_token": rb"\bglpat-[A-Za-z0-9_-]{20}",
    "google_key": rb"\bAIza[0-9A-Za-z_-]{35}",
    "slack_token": rb"\bxox[abprs]-[0-9A-Za-z-]{20}",
    "stripe_key": rb"\b[rs]k_live_[0-9A-Za-z]{20}",
    "npm_token": rb"\bnpm_[A-Za-z0-9]{36}\b",
    "pypi_token": rb"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{30}",
    "openai_key": rb"\bsk-(?:proj-|ant-)?[A-Za-z0-9_-]{40}",
    "azure_key": rb"\bAccountKey=[A-Za-z0-9+/]{80}",
}
_ANY: Final = re.compile(b"|".join(b"(?P<%s>%s)" % (name.encode(), shape) for name, shape in _SHAPES.items()))

#: Names that `shapes` can give.
NAMES: Final = ("secret", *sorted(_SHAPES))


def shapes(content: bytes) -> dict[str, bool]:
    """The shapes found, each name -> true, and `secret` where there are any."""
    found = {match.lastgroup: True for match in _ANY.finditer(content) if match.lastgroup}
    return {"secret": True, **found} if found else {}
