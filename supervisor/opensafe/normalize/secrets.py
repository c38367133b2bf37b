"""What in a content looks like a secret, by the shape that its issuer gave it.

Only shapes that are hardly ever anything else: a fixed prefix and a length, or a PEM armour. Linear in the content,
which is an agent's and may be large: each shape is looked for only where a text that it can't do without stands. The
names found are kept beside the content's digest when it is sealed, so that policy and replay see the same.
"""

import re
from typing import Final

#: By name: the shape, and texts of which one stands in all that has it.
_SHAPES: Final[dict[str, tuple[bytes, ...]]] = {
    "private_key": (
        rb"-----BEGIN (?:RSA |EC |DSA |OPENSSH |ENCRYPTED |PGP )?PRIVATE KEY(?: BLOCK)?-----",
        b"PRIVATE KEY",
    ),
    "aws_key": (rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", b"AKIA", b"ASIA"),
    "github_token": (rb"\bgh[pousr]_[A-Za-z0-9]{36}\b|\bgithub_pat_[A-Za-z0-9_]{60}", b"gh", b"github_pat_"),
    "gitlab_token": (rb"\bglpat-[A-Za-z0-9_-]{20}", b"glpat-"),
    "google_key": (rb"\bAIza[0-9A-Za-z_-]{35}", b"AIza"),
    "slack_token": (rb"\b(?:xox[abeoprs]|xapp)-[0-9A-Za-z-]{20}", b"xox", b"xapp-"),
    "stripe_key": (rb"\b[rs]k_live_[0-9A-Za-z]{20}", b"k_live_"),
    "npm_token": (rb"\bnpm_[A-Za-z0-9]{36}\b", b"npm_"),
    "pypi_token": (rb"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{30}", b"pypi-"),
    "openai_key": (rb"\bsk-(?:[A-Za-z0-9_-]{40}|(?:proj|ant|or)-[A-Za-z0-9_-]{20})", b"sk-"),
    "huggingface_token": (rb"\bhf_[A-Za-z0-9]{30}", b"hf_"),
    "groq_key": (rb"\bgsk_[A-Za-z0-9]{40}", b"gsk_"),
    "sendgrid_key": (rb"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{30}", b"SG."),
    "digitalocean_token": (rb"\bdo[opr]_v1_[0-9a-f]{64}", b"_v1_"),
    "docker_token": (rb"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20}", b"dckr_"),
    "vault_token": (rb"\bhv[sbr]\.[A-Za-z0-9_-]{24}", b"hv"),
    "shopify_token": (rb"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", b"shp"),
    "square_token": (rb"\bsq0(?:atp|csp|idp)-[A-Za-z0-9_-]{20}", b"sq0"),
    "linear_key": (rb"\blin_(?:api|oauth)_[A-Za-z0-9]{32}", b"lin_"),
    "atlassian_token": (rb"\bATATT3[A-Za-z0-9_=-]{60}", b"ATATT3"),
    "google_token": (rb"\bya29\.[A-Za-z0-9_-]{30}", b"ya29."),
    "mailgun_key": (rb"\bkey-[0-9a-f]{32}\b", b"key-"),
    "twilio_key": (rb"\bSK[0-9a-f]{32}\b", b"SK"),
    "slack_webhook": (rb"hooks\.slack\.com/services/T[A-Z0-9]{8,}/B[A-Z0-9]{8,}/[A-Za-z0-9]{20}", b"hooks.slack.com"),
    # Upper case or lower: no text stands in all of them.
    "aws_secret": (rb"(?i:aws_secret_access_key)[\"']?\s{0,4}[=:]\s{0,4}[\"']?[A-Za-z0-9/+]{38}", b""),
    # From the start of the word that it ends, or each part of a long one would be read to its end.
    "web_token": (rb"(?<![\w-])(?=[\w-]*+\.eyJ[\w-]{10,}+\.[\w-]{20})(?=[\w-]*?\beyJ[\w-]{10,}+\.)", b".eyJ"),
    "age_key": (rb"\bAGE-SECRET-KEY-1[0-9A-Z]{50}", b"AGE-SECRET-KEY-1"),
    "putty_key": (rb"\bPuTTY-User-Key-File-[23]:", b"PuTTY-"),
    "azure_key": (rb"\bAccountKey=[A-Za-z0-9+/]{80}", b"AccountKey="),
}
_PATTERNS: Final = {name: (re.compile(shape), hints) for name, (shape, *hints) in _SHAPES.items()}

#: Names that `shapes` can give.
NAMES: Final = ("secret", *sorted(_SHAPES))


def shapes(content: bytes) -> dict[str, bool]:
    """The shapes found, each name -> true, and `secret` where there are any."""
    found = {
        name: True
        for name, (pattern, hints) in _PATTERNS.items()
        if any(hint in content for hint in hints) and pattern.search(content)
    }
    return {"secret": True, **found} if found else {}
