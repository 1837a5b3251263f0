"""Prompts that are longer than a model's window: what is left out, and which model is asked then."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from agent.llm.completions import Cause, ModelRequest, count_prompt
from agent.llm.providers.errors import is_too_long, to_failure
from agent.llm.pruning import prune
from agent.tools.modules import ModuleTools
from shared.clock import SystemClock
from shared.db.database import Address
from shared.errors import PromptTooLong
from shared.messages import Permission
from shared.settings import Settings
from shared.tools import Tool, ToolContext
from tests.standins.openai_api import Answer, Fault, OpenAIStub
from tests.standins.openai_api.script import Body, results_so_far
from tests.support.model_calls import parley as asking
from tests.support.parley import Parley, open_parley

Message = dict[str, Any]
SYSTEM: Message = {"role": "system", "content": "You are kind. " * 10}
THIS: Message = {"role": "user", "content": "What do the books say?\n\n<context>…</context>"}


def past(turns: int) -> list[Message]:
    """Return a history of so many turns, each with one tool call, of about 150 tokens."""
    return [
        message
        for number in range(turns)
        for message in (
            {"role": "user", "content": f"question {number} " * 5},
            *exchange(f"past_{number}", 100),
            {"role": "assistant", "content": f"answer {number} " * 5},
        )
    ]


def exchange(name: str, chars: int) -> list[Message]:
    """Return an answer of a model with one call, and its result of so many characters."""
    call = {"id": name, "type": "function", "function": {"name": "books__read", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": name, "content": json.dumps(f"{name} " + "x" * chars)},
    ]


def pruned(messages: Sequence[Message], window: int, max_tokens: int = 100) -> list[Message]:
    return list(prune(ModelRequest(tuple(messages), (), max_tokens), window).messages)


def ids(messages: Sequence[Message]) -> list[str]:
    """Return the calls whose results are shown, and see that no call stands without its result."""
    calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert calls == [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    return calls


def test_what_fits_is_left_alone() -> None:
    messages = [SYSTEM, *past(3), THIS]

    assert pruned(messages, count_prompt(messages) + 100) == messages


def test_the_oldest_turns_go_first_and_whole() -> None:
    messages = [SYSTEM, *past(20), THIS, *exchange("now_0", 300)]
    prompt = pruned(messages, count_prompt(messages) // 2)

    assert prompt[0] == SYSTEM
    assert prompt[-3:] == messages[-3:]
    assert prompt[1]["role"] == "user"
    first = int(prompt[1]["content"].split()[1])
    assert ids(prompt) == [*(f"past_{number}" for number in range(first, 20)), "now_0"]
    assert count_prompt(prompt) + 100 <= count_prompt(messages) // 2


def test_then_the_oldest_calls_of_this_turn_give_way_to_a_note() -> None:
    waves = [message for number in range(12) for message in exchange(f"now_{number}", 900)]
    messages = [SYSTEM, *past(4), THIS, *waves, {"role": "user", "content": "(Steps with tools that are left: 2.)"}]
    prompt = pruned(messages, 2500)

    assert prompt[:2] == [SYSTEM, THIS]
    assert "books__read (" in prompt[2]["content"]
    assert "Left out here" in prompt[2]["content"]
    assert ids(prompt)[-1] == "now_11"
    assert 1 < len(ids(prompt)) < 12
    assert prompt[-1]["content"].startswith("(Steps")
    assert count_prompt(prompt) + 100 <= 2500


def test_system_this_message_and_the_last_exchange_always_stay() -> None:
    messages = [SYSTEM, *past(4), THIS, *exchange("now_0", 300), *exchange("now_1", 9000)]
    prompt = pruned(messages, 500)

    assert [prompt[0], prompt[1], *prompt[-2:]] == [SYSTEM, THIS, *messages[-2:]]
    assert ids(prompt) == ["now_1"]


def test_what_was_left_out_stays_out_and_the_beginning_stays_the_same_between_the_blocks() -> None:
    messages = [SYSTEM, *past(10), THIS]
    prompts: list[list[Message]] = []
    for number in range(60):
        messages += exchange(f"now_{number}", 300 + 100 * (number % 7))
        prompts.append(pruned(messages, 6000))

    breaks = [number for number, (before, after) in enumerate(pairwise(prompts)) if after[: len(before)] != before]
    omissions: set[str] = set()
    for number, prompt in enumerate(prompts):
        call_ids = set(ids(prompt))
        assert not omissions & call_ids
        omissions |= {f"now_{index}" for index in range(number)} - call_ids
        assert count_prompt(prompt) + 100 <= 6000
    # 60 exchanges are about 15,000 tokens; each time a third of the window goes.
    assert 3 <= len(breaks) <= 9


@pytest.mark.parametrize("messages", [[], [SYSTEM], [THIS], [*exchange("a", 9000)], [SYSTEM, SYSTEM, THIS, THIS]])
def test_odd_prompts_are_borne(messages: list[Message]) -> None:
    assert len(pruned(messages, 10)) <= len(messages)


def test_an_answer_never_takes_more_than_half_of_the_window() -> None:
    assert prune(ModelRequest((THIS,), (), 4000), 4096).max_tokens == 2048


async def read(_context: ToolContext, page: int = 0) -> str:
    return f"page {page}: " + "It was a dark and stormy night. " * 190


def reads(pages: int) -> Any:
    """Return a model that reads so many pages one after another, and says then what it was shown."""

    def play(body: Body, _number: int) -> Answer:
        text = json.dumps(body["messages"])
        visible_pages = [page for page in range(pages) if f"page {page}:" in text]
        if f"page {pages - 1}:" in text:
            return Answer(f"I still see {visible_pages}.")
        page = visible_pages[-1] + 1 if visible_pages else 0
        return Answer(tool_calls=[("books__read", {"page": page})])

    return play


def with_books(settings: Settings, *models: str) -> Settings:
    changes = {"default_guest_modules": ("books",), "default_guest_token_budget": 10**9}
    return settings.model_copy(update={**changes, **({"llm_models": models} if models else {})})


BOOKS = ModuleTools([Tool(read, Permission.GUEST, module="books")])


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_turn_that_outgrows_an_unknown_model_is_refused_once_and_goes_on(
    settings: Settings, address: Address, model: OpenAIStub, is_streamed: bool
) -> None:
    model.windows["stub"] = 12_000
    model.play(reads(9))
    async with open_parley(with_books(settings), address, model, modules=BOOKS) as parley:
        reply = await parley.ask("what do they say?", wants_stream=is_streamed)

    assert (reply.error, reply.iterations) == (None, 10)
    assert "8]" in reply.content
    assert "0" not in reply.content
    assert model.refusals == []
    # Ten calls were answered, and one was too long.
    assert len(model.requests) == 11
    last = model.requests[-1].body["messages"]
    assert [message["role"] for message in last[:3]] == ["system", "user", "user"]
    assert "what do they say?" in last[1]["content"]
    assert "Left out here" in last[2]["content"]


async def test_a_model_that_is_known_to_be_small_is_never_asked_too_much(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    model.windows["gpt-4"] = 8192
    model.play(reads(9))
    async with open_parley(with_books(settings, "gpt-4"), address, model, modules=BOOKS) as parley:
        await parley.app.models.router.warm()
        reply = await parley.ask("what do they say?")

    assert (reply.error, reply.iterations, len(model.requests)) == (None, 10, 10)


async def test_the_history_is_pruned_for_a_small_model_alone(parley: Parley) -> None:
    for number in range(8):
        await parley.ask(f"question {number} " * 60)
        await parley.sql("UPDATE users SET token_budget_monthly = NULL")
    parley.model.windows["stub"] = 3600

    reply = await parley.ask("and now?")

    assert reply.error is None
    prompt = json.dumps(parley.model.requests[-1].body["messages"])
    assert "question 7" in prompt
    assert "question 0" not in prompt
    assert await parley.value("SELECT count(*) FROM messages WHERE role = 'user'") == 9


LONG = ({"role": "system", "content": "Be kind."}, {"role": "user", "content": "word " * 8000})


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_what_cannot_be_pruned_goes_to_a_model_with_a_larger_window(is_streamed: bool) -> None:
    async with asking(None, "small", "openai/gpt-5-mini", "large") as at:
        at.stub.windows |= {"small": 4000, "gpt-5-mini": 5000}
        answer = await at.asks(messages=LONG, is_streamed=is_streamed, seconds=120)

        assert answer.model == "large"
        assert at.asked_models == ["small", "gpt-5-mini", "large"]
        assert answer.rejected == ()


async def test_a_refused_prompt_is_pruned_and_tried_again_once_before_the_next() -> None:
    async with asking(None, "small", "large") as at:
        messages = (SYSTEM, *past(40), THIS)
        at.stub.windows["small"] = 3000
        first = await at.asks(messages=messages)
        at.stub.windows["small"] = 40
        second = await at.asks(messages=messages)

        assert (first.model, second.model) == ("small", "large")
        assert at.asked_models == ["small"] * 4 + ["large"]
        # The model that has room is shown everything.
        assert len(at.stub.requests[-1].body["messages"]) == len(messages)


async def test_what_a_model_has_refused_is_forgotten_after_a_while() -> None:
    async with asking(None, "small") as at:
        messages = (SYSTEM, *past(40), THIS)
        at.stub.windows["small"] = 3000
        await at.asks(messages=messages)
        await at.asks(messages=messages)
        del at.stub.windows["small"]
        at.clock.ahead = 700.0
        await at.asks(messages=messages)

        counts = [len(request.body["messages"]) for request in at.stub.requests]
        assert counts[0] == counts[3] == len(messages)
        assert counts[1] == counts[2] < len(messages)


async def test_a_model_that_is_known_to_be_no_larger_is_passed_over() -> None:
    async with asking(None, "gpt-4", "gpt-4-0613", "large") as at:
        await at.router.warm()
        at.stub.windows |= {"gpt-4": 8192, "gpt-4-0613": 8192}
        answer = await at.asks(messages=LONG)

        assert answer.model == "large"
        assert at.asked_models == ["gpt-4", "large"]


async def test_when_no_window_is_large_enough_one_honest_sentence_says_so(parley: Parley) -> None:
    parley.model.windows["stub"] = 1000

    reply = await parley.ask("word " * 2000)

    assert reply.error == "too_long"
    assert "more than my language models can read" in reply.content
    assert await parley.value("SELECT status FROM turns") == "refused"
    assert await parley.value("SELECT tokens_reserved FROM users") == 0


async def test_another_failure_beside_it_is_told_as_such() -> None:
    def play(body: Body, _number: int) -> Fault:
        assert body["model"] == "large"
        return Fault(401)

    async with asking(play, "small", "large") as at:
        at.stub.windows["small"] = 4000
        with pytest.raises(Exception, match="can't reach any language model") as excinfo:
            await at.asks(messages=LONG)

        assert not isinstance(excinfo.value, PromptTooLong)


class Refusal(Exception):
    """An error as a provider's client raises it."""

    def __init__(self, status: int, message: str) -> None:
        self.status_code = status
        super().__init__(message)


@pytest.mark.parametrize(
    ("status", "message", "window", "counted"),
    [
        (
            400,
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 10500 tokens.",
            8192,
            10500,
        ),
        (
            400,
            "maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages)",
            4096,
            5000,
        ),
        (400, "Your input exceeds the context window of this model. Please adjust your input.", None, None),
        (400, "prompt is too long: 208310 tokens > 200000 maximum", 200000, 208310),
        (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", 200000, 190000),
        (
            400,
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            1048576,
            1200000,
        ),
        (400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32768, 40000),
        (400, "Current length is 9105 while limit is 8192. Please reduce the length of the messages", 8192, 9105),
        (422, "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000 `inputs` tokens", 4097, None),
        (400, "the request exceeds the available context size (4096 tokens), try increasing it", 4096, None),
        (500, "context size exceeded", None, None),
        (400, "the model is loaded with context length of only 4096 tokens", 4096, None),
        (400, "This model's maximum prompt length is 131072 but the request contains 170,000 tokens.", 131072, 170000),
        (400, "maximum context length is 32768 tokens. However, you requested about 50000 tokens", 32768, 50000),
        (400, "Input is too long for requested model.", None, None),
        (413, "Request too large for model `x` on tokens per minute: Limit 6000, Requested 9000", 6000, 9000),
        (429, "Request too large for gpt-4o in org-123456789 on TPM: Limit 30000, Requested 50000.", 30000, 50000),
    ],
)
def test_providers_words_for_a_prompt_that_is_too_long_are_understood(
    status: int, message: str, window: int | None, counted: int | None
) -> None:
    failure = to_failure(Refusal(status, message), SystemClock())

    assert (failure.cause, failure.window, failure.counted) == (Cause.TOO_LONG, window, counted)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "max_tokens is too large: 5000. This model supports at most 4096 completion tokens"),
        (400, "Invalid 'messages[0].name': string too long"),
        (429, "Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000."),
        (503, "maximum context length"),
    ],
)
def test_other_refusals_are_not_taken_for_it(status: int, message: str) -> None:
    assert not is_too_long(status, message)


async def test_a_turn_that_outgrows_its_model_in_the_middle_keeps_what_was_done(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    def play(body: Body, _number: int) -> Answer:
        return Answer("I read." if results_so_far(body) else "Let me read.", [("books__read", {"page": 1})] * 12)

    model.windows["stub"] = 9000
    model.play(play)
    async with open_parley(with_books(settings), address, model, modules=BOOKS) as parley:
        reply = await parley.ask("read it all")

    assert (reply.error, reply.finished) == ("too_long", False)
    assert reply.content.startswith("Let me read.")
    assert len(reply.tool_calls_made) == 12
