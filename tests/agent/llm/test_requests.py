"""Providers that cache only what is marked get marks at the ends of what stays the same; others get none."""

from typing import Any

import pytest

from agent.llm.providers.requests import MARK, MARKED_MODEL, with_marks
from tests.support.model_calls import parley

SYSTEM: dict[str, Any] = {"role": "system", "content": "You are Parley."}
HISTORY: list[dict[str, Any]] = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}]
ASKED: dict[str, Any] = {"role": "user", "content": "roll"}
WAVE: list[dict[str, Any]] = [
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "roll", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "4"},
]


@pytest.mark.parametrize(
    ("model", "is_marked"),
    [
        ("claude-sonnet-4-5", True),
        ("anthropic/claude-haiku-4-5", True),
        ("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", True),
        ("openai/gpt-4o", False),
        ("hosted_vllm/claude-like", False),
        ("gemini/gemini-2.5-pro", False),
    ],
)
def test_only_models_of_anthropic_are_marked(model: str, is_marked: bool) -> None:
    assert bool(MARKED_MODEL.match(model)) is is_marked


def test_the_marks_end_the_instructions_the_history_and_the_request() -> None:
    marked = with_marks([SYSTEM, *HISTORY, ASKED, *WAVE])

    assert [place for place, message in enumerate(marked) if "cache_control" in message] == [0, 2, 5]
    assert "cache_control" not in SYSTEM


def test_a_first_message_with_an_image_is_marked_at_its_last_part() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    marked = with_marks([SYSTEM, {"role": "user", "content": [{"type": "text", "text": "see"}, image]}])

    assert marked[0]["cache_control"] == MARK
    assert [part.get("cache_control") for part in marked[1]["content"]] == [None, MARK]


async def test_the_schema_of_a_tool_arrives_as_it_is() -> None:
    switch = {"type": "boolean", "description": "Refuse what is unclear."}
    parameters = {"type": "object", "properties": {"strict": switch}, "required": ["strict"]}
    tool = {"type": "function", "function": {"name": "law__read", "description": "Read.", "parameters": parameters}}
    async with parley() as own:
        await own.asks(tools=(tool,))
        await own.asks(tools=(tool,), is_streamed=True)

    assert [request.body["tools"] for request in own.stub.requests] == [[tool], [tool]]
    assert parameters["properties"] == {"strict": switch}
