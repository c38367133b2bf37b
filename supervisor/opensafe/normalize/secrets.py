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
    "slack_token": rb"\b(?:xox[abeoprs]|xapp)-[0-9A-Za-z-]{20}",
    "stripe_key": rb"\b[rs]k_live_[0-9A-Za-z]{20}",
    "npm_token": rb"\bnpm_[A-Za-z0-9]{36}\b",
    "pypi_token": rb"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{30}",
    "openai_key": rb"\bsk-(?:[A-Za-z0-9_-]{40}|(?:proj|ant|or)-[A-Za-z0-9_-]{20})",
    "huggingface_token": rb"\bhf_[A-Za-z0-9]{30}",
    "groq_key": rb"\bgsk_[A-Za-z0-9]{40}",
    "sendgrid_key": rb"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{30}",
    "digitalocean_token": rb"\bdo[opr]_v1_[0-9a-f]{64}",
    "docker_token": rb"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20}",
    "vault_token": rb"\bhv[sbr]\.[A-Za-z0-9_-]{24}",
    "shopify_token": rb"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    "square_token": rb"\bsq0(?:atp|csp|idp)-[A-Za-z0-9_-]{20}",
    "linear_key": rb"\blin_(?:api|oauth)_[A-Za-z0-9]{32}",
    "atlassian_token": rb"\bATATT3[A-Za-z0-9_=-]{60}",
    "google_token": rb"\bya29\.[A-Za-z0-9_-]{30}",
    "mailgun_key": rb"\bkey-[0-9a-f]{32}\b",
    "twilio_key": rb"\bSK[0-9a-f]{32}\b",
    "slack_webhook": rb"hooks\.slack\.com/services/T[A-Z0-9]{8,}/B[A-Z0-9]{8,}/[A-Za-z0-9]{20}",
    "aws_secret": rb"(?i:aws_secret_access_key)[\"']?\s{0,4}[=:]\s{0,4}[\"']?[A-Za-z0-9/+]{38}",
    "web_token": rb"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20}",
    "age_key": rb"\bAGE-SECRET-KEY-1[0-9A-Z]{50}",
    "putty_key": rb"\bPuTTY-User-Key-File-[23]:",
    "azure_key": rb"\bAccountKey=[A-Za-z0-9+/]{80}",
}
_ANY: Final = re.compile(b"|".join(b"(?P<%s>%s)" % (name.encode(), shape) for name, shape in _SHAPES.items()))

#: Names that `shapes` can give.
NAMES: Final = ("secret", *sorted(_SHAPES))


def shapes(content: bytes) -> dict[str, bool]:
    """The shapes found, each name -> true, and `secret` where there are any."""
    found = {match.lastgroup: True for match in _ANY.finditer(content) if match.lastgroup}
    return {"secret": True, **found} if found else {}
