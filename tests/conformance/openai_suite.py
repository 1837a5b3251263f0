"""OpenAI's official client for Node, against the OpenAI-compatible API."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.adapters.web.conftest import TOKEN, Site
from tests.conformance.environment import FOLDER, Verdict, open_door, run_node
from tests.standins.openai_api import Answer, Fault

SUITE = "OpenAI, Node"
SCRIPT = Path(__file__).with_name("openai_client.mjs")
HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
SPACED = "\n\n  Hello there, Ann. \n"

Result = dict[str, Any]
Ask = Callable[..., Awaitable[Result]]
Scenario = Callable[[Site, Ask], Awaitable[bool]]


async def an_answer(site: Site, ask: Ask) -> bool:
    """Check a whole answer with its usage."""
    site.parley.model.play([Answer("Hello, Ann.")])
    result = await ask(messages=HELLO, user="ann")
    counted: int = result["usage"]["total_tokens"]
    return (result["text"], result["finish_reason"]) == ("Hello, Ann.", "stop") and counted > 0


async def a_stream(site: Site, ask: Ask) -> bool:
    """Check that a streamed answer with white space around it arrives once, with its usage."""
    site.parley.model.play([Answer(SPACED, chunk_chars=3, chunk_delay=0.03)])
    result = await ask(messages=HELLO, user="ann", stream=True, stream_options={"include_usage": True})
    counted: int = result["usage"]["total_tokens"]
    return (result["text"], result["finish_reason"]) == (SPACED.strip(), "stop") and counted > 0


async def instructions_and_history(site: Site, ask: Ask) -> bool:
    """Check that the request's messages reach the model in their roles."""
    site.parley.model.play([Answer("Aye.")])
    earlier = [{"role": "system", "content": "Be a pirate."}, *HELLO, {"role": "assistant", "content": "Ahoy."}]
    await ask(messages=[*earlier, {"role": "user", "content": "again"}], user="ann", temperature=0.3)
    body = site.parley.model.requests[-1].body
    roles = [message["role"] for message in body["messages"]]
    return roles == ["system", "user", "assistant", "user"] and body["temperature"] == 0.3


async def tools_of_the_client(_site: Site, ask: Ask) -> bool:
    """Check that tools are refused."""
    result = await ask(messages=HELLO, user="ann", tools=[TOOL])
    return (result["error"], result["status"]) == ("BadRequestError", 400)


async def _is_exhausted(site: Site, ask: Ask, **options: Any) -> bool:
    await site.parley.sql("UPDATE users SET tokens_used_this_month = token_budget_monthly")
    result = await ask(messages=HELLO, user="ann", **options)
    await site.parley.sql("UPDATE users SET tokens_used_this_month = 0")
    return (result["error"], result["status"], result["code"]) == ("RateLimitError", 429, "insufficient_quota")


async def an_exhausted_budget(site: Site, ask: Ask) -> bool:
    """Check the 429."""
    return await _is_exhausted(site, ask)


async def an_exhausted_budget_while_streaming(site: Site, ask: Ask) -> bool:
    """Check the 429 for a request that would be streamed."""
    return await _is_exhausted(site, ask, stream=True)


async def no_model(site: Site, ask: Ask) -> bool:
    """Check the 503."""
    site.parley.model.play(lambda _body, _number: Fault(status=401))
    result = await ask(messages=HELLO, user="ann")
    return (result["error"], result["status"], result["code"]) == ("InternalServerError", 503, "models_unavailable")


async def a_file(site: Site, ask: Ask) -> bool:
    """Check that a file as a data: address is stored and told of to the model."""
    site.parley.model.play([Answer("Tea.")])
    file = {"filename": "tea.txt", "file_data": "data:text/plain;base64,b29sb25n"}
    parts = [{"type": "text", "text": "read this"}, {"type": "file", "file": file}]
    result = await ask(messages=[{"role": "user", "content": parts}], user="ann")
    told = "tea.txt (file_id" in str(site.parley.model.requests[-1].body["messages"])
    return result["text"] == "Tea." and told


async def a_response(site: Site, ask: Ask) -> bool:
    """Check a response with its usage, and one that goes on from it."""
    site.parley.model.play([Answer("Hello, Ann."), Answer("Hello again.")])
    first = await ask("respond", input="hello", user="ann", instructions="Be brief.")
    second = await ask("respond", input="again", user="ann", previous_response_id=first["id"])
    messages = [message["role"] for message in site.parley.model.requests[-1].body["messages"]]
    counted: int = first["usage"]["input_tokens_details"]["cached_tokens"] + first["usage"]["total_tokens"]
    is_well = (first["text"], first["finish_reason"], second["text"]) == ("Hello, Ann.", "completed", "Hello again.")
    return is_well and counted > 0 and messages == ["system", "user", "assistant", "user"]


async def a_streamed_response(site: Site, ask: Ask) -> bool:
    """Check the events of a streamed response, and that the client puts its text together."""
    site.parley.model.play([Answer(SPACED, chunk_chars=3, chunk_delay=0.03)])
    result = await ask("respond", input="hello", user="ann", stream=True)
    events = list(dict.fromkeys(result["events"]))
    ends = (events[0], events[-1])
    return (result["text"], ends) == (SPACED.strip(), ("response.created", "response.completed"))


async def a_stored_response(site: Site, ask: Ask) -> bool:
    """Check that a response is read again, deleted, and then not found."""
    site.parley.model.play([Answer("Kept.")])
    stored = await ask("respond", input="hello", user="ann")
    result = await ask("retrieve", id=stored["id"])
    return (result["text"], result["error"], result["status"]) == ("Kept.", "NotFoundError", 404)


async def another_s_response(site: Site, ask: Ask) -> bool:
    """Check that nobody goes on from another person's response."""
    site.parley.model.play([Answer("Hello, Ann.")])
    first = await ask("respond", input="hello", user="ann")
    result = await ask("respond", input="again", user="bob", previous_response_id=first["id"])
    return (result["error"], result["code"]) == ("BadRequestError", "previous_response_not_found")


# The last one leaves a model that is out for a while.
SCENARIOS: tuple[Scenario, ...] = (
    an_answer,
    a_stream,
    a_file,
    a_response,
    a_streamed_response,
    a_stored_response,
    another_s_response,
    instructions_and_history,
    tools_of_the_client,
    an_exhausted_budget,
    an_exhausted_budget_while_streaming,
    no_model,
)


async def run(home: Path) -> list[Verdict]:
    """Return what came of each scenario."""
    # Node finds packages by the folder of the script.
    script = FOLDER / SCRIPT.name
    script.write_bytes(SCRIPT.read_bytes())
    async with open_door(home) as site:
        last: Result = {}

        async def ask(kind: str = "complete", **body: Any) -> Result:
            parameters = {"url": site.url, "token": TOKEN, "kind": kind, "body": body, "headers": {}}
            is_well, output = await run_node(str(script), json.dumps(parameters))
            last.clear()
            last.update(json.loads(output) if is_well else {"error": output[-500:], "status": None, "code": None})
            return {"text": None, "error": None, "usage": {"total_tokens": 0}} | last

        verdicts = []
        for scenario in SCENARIOS:
            is_passed = await scenario(site, ask)
            name = scenario.__name__.replace("_", " ")
            verdicts.append(Verdict(SUITE, name, is_passed, "" if is_passed else json.dumps(last)))
    return verdicts
