"""The optional parts of the model layer: nothing but the registry names them."""

import pytest

from agent.llm.registry import BUILT_IN_MODELS, PROTOCOLS
from tests.support.source_tree import sources_in


@pytest.mark.parametrize("part", ["offline", "scripted", "text_protocols"])
def test_an_optional_part_is_imported_by_the_registry_alone(part: str) -> None:
    importers = {
        source.path
        for source in sources_in("adapters", "agent", "modules", "shared")
        for each in source.imports()
        if each.is_within(f"agent.llm.{part}") and not source.path.startswith(f"agent/llm/{part}/")
    }

    assert importers == {"agent/llm/registry.py"}


def test_the_registry_names_every_optional_part() -> None:
    assert {each.name for each in BUILT_IN_MODELS} == {"offline", "mock"}
    assert set(PROTOCOLS) == {"native", "tool_tag", "fenced"}
