"""Of a long result of a tool the model is shown a part, and all of it is kept for operators, within bounds."""

import json

from agent.queue.maintenance.retention import remove_expired
from agent.queue.maintenance.steps import Steps
from agent.tools.outcomes import to_shown_and_kept
from shared.clock import SystemClock
from shared.messages import Permission
from shared.settings import Settings
from shared.tools import Tool, ToolContext
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.parley import Parley


async def fetch(_context: ToolContext, chars: int) -> str:
    """Return a long text."""
    return "walrus " * (chars // 7)


async def test_a_long_result_is_kept_as_it_came_until_the_events_of_its_turn_go(
    parley: Parley, model: OpenAIStub, settings: Settings
) -> None:
    parley.app.tools.mcp.offer([Tool(fetch, Permission.GUEST, module="library", read_only=True)])
    await parley.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Read.', 'test')")
    calls = [("library__fetch", {"chars": chars}) for chars in (70, 70_000, 700_000)]
    model.play([Answer(tool_calls=calls), Answer("Read.")])

    answer = await parley.ask("read it all")

    short, *_ = (call.result for call in answer.tool_calls_made)
    assert short == "walrus " * 10
    texts = [str(message) for message in model.requests[-1].body["messages"] if message["role"] == "tool"]
    assert all(len(text) < 1.2 * settings.tool_result_max_chars for text in texts)
    story = await parley.value("SELECT admin.explain_turn(:id)", id=answer.turn_id)
    long, huge = (
        (result["characters_shown"], result["characters_kept"], json.loads(result["content"]))
        for result in story["long_results"]
    )
    assert long[0] <= settings.tool_result_max_chars < long[1]
    assert long[2] == "walrus " * 10_000
    assert huge[1] <= settings.tool_result_kept_chars
    assert huge[2]["cut"]

    await parley.sql("UPDATE full_results SET created_at = now() - interval '400 days'")
    await remove_expired(Steps(parley.app.database, SystemClock(), pause_factor=0), settings)
    assert await parley.value("SELECT count(*) FROM full_results") == 0


def test_what_the_model_is_shown_whole_or_may_not_be_kept_is_not_kept_twice() -> None:
    assert to_shown_and_kept("a" * 100, 500, 1000) == (json.dumps("a" * 100), None)
    assert to_shown_and_kept("a" * 700, 500)[1] is to_shown_and_kept("a" * 700, 500, 500)[1] is None
    excerpt, original = to_shown_and_kept({"a": "b" * 5000}, 500, 1000)
    assert original is not None
    assert len(excerpt) <= 500 < len(original) <= 1000
    assert json.loads(original)["total_chars"] == json.loads(excerpt)["total_chars"]
