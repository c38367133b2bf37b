"""The Model Context Protocol: OpenSafe as a server of tools, and as a proxy before other servers.

Both are clients of the daemon, so that they decide nothing; the protocol itself is the official SDK's, which is an
extra and is imported nowhere else.
"""

try:
    import mcp  # noqa: F401 - looked for, so that what is missing is named here
except ModuleNotFoundError as missing:
    raise ImportError(
        f"opensafe.mcp needs {missing.name}: install the extra `mcp` (pip install 'opensafe[mcp]')"
    ) from missing
