"""What a prompt was made of stays with the turn; long results of past turns are shown in part."""

import json

from agent.journal.steps import PastStep, Step, ToolUse
from agent.llm.completions import IMAGE_TOKENS
from agent.turn.context.builder import PAST_RESULT_CHARS, count_history
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.eventually import eventually
from tests.support.parley import Parley


async def test_a_turn_keeps_what_its_prompt_was_made_of(parley: Parley) -> None:
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")
    await parley.ask("hello")
    await parley.sql("UPDATE conversations SET summary = 'They met.', summarized_turn_id = 0")
    answer = await parley.ask("hello again")

    reasons = await parley.value("SELECT reasons FROM turn_contexts WHERE turn_id = :id", id=answer.turn_id)
    assert reasons["history"]["turns"] == 1
    assert reasons["history"]["tokens"] > 0
    assert reasons["summary"]["tokens"] == 3
    assert reasons["memories"] == []
    assert "hello" not in json.dumps(reasons)


async def test_memories_are_kept_with_their_scores(parley: Parley, model: OpenAIStub) -> None:
    model.play([Answer(tool_calls=[("knowledge__remember", {"content": "Ann likes tea."})]), "Noted.", "Tea."])
    await parley.ask("I like tea, remember that.")
    await eventually(lambda: parley.value("SELECT has_memories FROM users"))
    answer = await parley.ask("Which tea do I like?")

    reasons = await parley.value("SELECT reasons FROM turn_contexts WHERE turn_id = :id", id=answer.turn_id)
    assert reasons["memories"]
    assert all(memory["score"] > 0 for memory in reasons["memories"])


async def test_of_a_long_result_of_a_past_turn_only_the_beginning_is_shown(parley: Parley, model: OpenAIStub) -> None:
    text = "lorem ipsum " * 400
    call = ("file_manager__create_document", {"title": "long", "content": text, "format": "txt"})
    answer = Answer(tool_calls=[call])
    model.play([answer, "Made.", "Yes."])
    await parley.ask("Write it.")
    await parley.sql("UPDATE messages SET content = to_json(repeat('x', 5000))::text WHERE role = 'tool_result'")
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")

    await parley.ask("Is it there?")

    results = [message for message in model.requests[-1].body["messages"] if message["role"] == "tool"]
    assert len(results) == 1
    assert len(results[0]["content"]) == PAST_RESULT_CHARS
    assert "cut: 5,002 characters" in results[0]["content"]


def test_images_and_shortened_results_are_counted_as_they_are_shown() -> None:
    image = Step(0, "user", "look\n- a.png (file_id 7, 20 KB, image/png)", token_count=10)
    result = Step(1, "tool_result", "x" * 9000, token_count=3000, tool=ToolUse("1", "a.b"))

    assert count_history([PastStep(1, 1, image)]) == 10 + IMAGE_TOKENS
    assert count_history([PastStep(1, 1, result)]) == PAST_RESULT_CHARS // 3
