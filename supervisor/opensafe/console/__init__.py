"""The console: what agents try, why it was stopped, and people's decisions, in a browser (docs/console.md)."""

try:
    import jinja2  # noqa: F401 - asked for first, so that the extra is named where it lacks
    import starlette  # noqa: F401 - likewise
    import uvicorn  # noqa: F401 - likewise
except ImportError as error:
    raise ImportError("the console needs its extra: pip install 'opensafe[console]'") from error
