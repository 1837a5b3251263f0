"""Research in a conversation: the model searches, reads and answers with its source."""

import json
from contextlib import AsyncExitStack

from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.loopback import by_path, reply, serving
from tests.support.parley import open_parley
from tests.support.tool_calls import variables

PAGE = b"<html><head><title>Bridge</title></head><body><article><p>It opens on 3 May 2026.</p></article></body></html>"


async def test_a_question_is_researched_and_answered_with_its_source(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with AsyncExitStack() as stack:
        web = await stack.enter_async_context(serving(reply(PAGE, headers={"Content-Type": "text/html"})))
        results = {"results": [{"title": "Bridge", "url": f"{web.origin}/bridge", "content": "May"}]}
        search = await stack.enter_async_context(
            serving(by_path({"/search?q=bridge&format=json&categories=general": reply(json.dumps(results).encode())}))
        )
        stack.enter_context(variables(RESEARCH_SEARXNG_URL=search.origin))
        configuration = settings.model_copy(update={"egress_allow": (web.origin,)})
        parley = await stack.enter_async_context(open_parley(configuration, address, model))
        await parley.sql(
            "INSERT INTO personas (name, system_prompt, is_default, allowed_modules)"
            """ VALUES ('Parley', 'Be kind.', true, '["research"]')"""
        )
        source = f"On 3 May, says [the town]({web.origin}/bridge)."
        model.play(
            [
                Answer(tool_calls=[("research__web_search", {"query": "bridge"})]),
                Answer(tool_calls=[("research__fetch_webpage", {"url": f"{web.origin}/bridge"})]),
                Answer(source),
            ]
        )

        answer = await parley.ask("When does the bridge open?")

        assert (answer.content, answer.error) == (source, None)
        assert "cite the URL of each source" in model.requests[0].body["messages"][0]["content"]
        names = {tool["function"]["name"] for tool in model.requests[0].body["tools"]}
        assert "research__news_search" in names
        # A guest spends nothing.
        assert "research__summarize_text" not in names
        assert "It opens on 3 May 2026." in model.requests[2].body["messages"][-1]["content"]
