"""From a name on a command line to a chat model. Providers are packages of their own, imported only when named."""

import importlib
import importlib.util
import inspect
from collections.abc import Callable
from functools import partial
from types import ModuleType

from langchain_core.language_models import BaseChatModel

from opensafe.errors import InvalidArgument

_REMEDY = (
    "Name PROVIDER:NAME with the provider's package installed (ollama:qwen3 needs langchain-ollama), "
    "or MODULE:FACTORY, a function that takes nothing and gives a LangChain chat model."
)


def load_model(spec: str) -> BaseChatModel:
    """The model named by PROVIDER:NAME or MODULE:FACTORY. Raises InvalidArgument."""
    left, colon, right = spec.partition(":")
    if not (left and colon and right):
        raise InvalidArgument("the model is not named as it must be", value=spec, remedy=_REMEDY)
    factory = _factory(left, right, spec)
    try:
        model = factory()
    except Exception as error:  # without its key, say; what a provider raises then is its own
        raise InvalidArgument(f"the model can't be made: {error}", value=spec, remedy=_REMEDY) from error
    if not isinstance(model, BaseChatModel):
        raise InvalidArgument(f"it gave a {type(model).__name__} and no chat model", value=spec, remedy=_REMEDY)
    return model


def _factory(left: str, right: str, spec: str) -> Callable[[], object]:
    package = f"langchain_{left.replace('-', '_')}"
    if "." not in left and importlib.util.find_spec(package) is not None:
        return partial(_class_of(importlib.import_module(package)), model=right)
    try:
        factory: Callable[[], object] = getattr(importlib.import_module(left), right)
    except (ImportError, AttributeError) as error:
        raise InvalidArgument(f"there is no such model here: {error}", value=spec, remedy=_REMEDY) from error
    return factory


def _class_of(package: ModuleType) -> Callable[..., BaseChatModel]:
    """The one class Chat… of a provider's package that is not a variant of another (AzureChat…)."""
    found = [
        value
        for name, value in inspect.getmembers(package, inspect.isclass)
        if name.startswith("Chat") and issubclass(value, BaseChatModel) and value is not BaseChatModel
    ]
    if len(found) != 1:
        names = ", ".join(kind.__name__ for kind in found) or "none"
        raise InvalidArgument(
            "the package has not exactly one chat model", value=f"{package.__name__}: {names}", remedy=_REMEDY
        )
    return found[0]
