"""Models by name: a provider's package, a factory, or a reason why there is none."""

import importlib.machinery
import sys
import types

import pytest

from opensafe.errors import InvalidArgument
from opensafe.planner import ScriptedModel, load_model
from tests.unit.planner.support import model


class ChatNamed(ScriptedModel):
    """A provider's class takes the model's name."""

    model: str = ""


@pytest.fixture
def provider(monkeypatch):
    """An installed package langchain_acme, with the given content."""

    def install(**content):
        module = types.ModuleType("langchain_acme")
        module.__spec__ = importlib.machinery.ModuleSpec("langchain_acme", None)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, "langchain_acme", module)

    return install


def test_a_provider_is_its_package(provider, monkeypatch):
    monkeypatch.setattr(ChatNamed.model_fields["script"], "default", model().script)
    ChatNamed.model_rebuild(force=True)
    provider(ChatAcme=ChatNamed)
    found = load_model("acme:large")
    assert isinstance(found, ChatNamed)
    assert found.model == "large"


def test_a_package_with_several_models_needs_a_factory(provider):
    provider(ChatAcme=ChatNamed, ChatOther=ScriptedModel)
    with pytest.raises(InvalidArgument, match="ChatNamed, ScriptedModel"):
        load_model("acme:large")


def test_a_factory_gives_its_model(provider, monkeypatch):
    module = types.ModuleType("mine")
    made = model()
    vars(module).update(make=lambda: made, wrong=lambda: 3)
    monkeypatch.setitem(sys.modules, "mine", module)
    assert load_model("mine:make") is made
    with pytest.raises(InvalidArgument, match="no chat model"):
        load_model("mine:wrong")


@pytest.mark.parametrize("spec", ["", "x", ":", "a:", ":b", "nowhere.at.all:make", "json:nothing"])
def test_what_names_no_model_says_how_to_name_one(spec):
    with pytest.raises(InvalidArgument, match="PROVIDER:NAME"):
        load_model(spec)
