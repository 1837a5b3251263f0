"""The optional parts of the model layer: nothing but the registry names them."""

import pytest

from tests.support.source_tree import sources_in


@pytest.mark.parametrize("part", ["offline", "scripted", "text_protocols"])
def test_an_optional_part_is_imported_by_the_registry_alone(part: str) -> None:
    importers = {
        source.path
        for source in sources_in("adapters", "agent", "modules", "shared")
        for module in source.imports()
        if module.is_within(f"agent.llm.{part}") and not source.path.startswith(f"agent/llm/{part}/")
    }

    assert importers <= {"agent/llm/registry.py"}
