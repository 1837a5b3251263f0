"""Conversations that pause get a summary, from the transcript, once, paid and checked."""

import asyncio
import json
from typing import Any

import pytest

from agent.llm.router import Router
from agent.memory.summaries import claims
from agent.queue.edits import change_message
from agent.queue.redaction import redact
from shared.clock import SystemClock
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import Answer, Fault, OpenAIStub
from tests.support.parley import Parley, open_parley
from tests.support.summaries import (
    is_summary,
    new_summarizer,
    pause,
    pause_and_summarise,
    summarise,
    summarised_by,
)

GOLDEN = "Ann has moved the launch of Falcon to 12 May; the budget is 4,200 euros. Open: who writes the manual?"


async def row(parley: Parley) -> Any:
    return (await parley.sql("SELECT * FROM conversations ORDER BY id LIMIT 1"))[0]


async def talk(parley: Parley, **options: Any) -> None:
    await parley.ask("We move the launch of Falcon to 12 May.", **options)
    await parley.ask("The budget is 4,200 euros. Who writes the manual?", **options)


async def test_a_conversation_that_pauses_gets_a_summary_that_the_next_turn_shows(
    parley: Parley, model: OpenAIStub
) -> None:
    model.play(summarised_by(lambda _: GOLDEN))
    await talk(parley)
    assert (await row(parley)).is_summarized is False

    await pause_and_summarise(parley)

    conversation = await row(parley)
    assert (conversation.summary, conversation.is_summarized, conversation.summary_due_at) == (GOLDEN, True, None)
    await parley.ask("And now?")
    assert GOLDEN in model.requests[-1].body["messages"][0]["content"]
    after = await row(parley)
    assert after.is_summarized is False
    assert after.summary_due_at is not None


async def test_a_window_that_is_too_small_fails_the_attempt_and_holds_nothing(
    parley: Parley, model: OpenAIStub
) -> None:
    await talk(parley)
    await pause(parley)
    model.windows["stub"] = 40

    await summarise(parley)

    conversation = await row(parley)
    assert (conversation.summary_failures, conversation.summary_claimed_until) == (1, None)
    assert await parley.value("SELECT count(*) FROM budget_reservations") == 0


async def test_a_conversation_in_which_people_still_talk_waits(parley: Parley, model: OpenAIStub) -> None:
    await talk(parley)
    await parley.sql("UPDATE conversations SET summary_due_at = now()")

    await summarise(parley)

    assert not any(is_summary(request.body) for request in model.requests)
    assert await parley.value("SELECT summary_due_at > now() + interval '25 minutes' FROM conversations")


async def test_the_next_summary_is_made_of_the_last_one_and_what_was_said_since(
    parley: Parley, model: OpenAIStub
) -> None:
    prompts: list[str] = []

    def answer(text: str) -> str:
        prompts.append(text)
        return GOLDEN

    model.play(summarised_by(answer))
    await talk(parley)
    await pause_and_summarise(parley)
    await parley.ask("Bob writes the manual.", user="ann")
    await pause_and_summarise(parley)

    assert "We move the launch" in prompts[0]
    assert "We move the launch" not in prompts[1]
    assert GOLDEN in prompts[1]
    assert "Bob writes the manual." in prompts[1]
    assert await parley.value("SELECT count(*) FROM summaries") == 2


async def test_a_conversation_in_which_nothing_was_said_since_is_left_alone(parley: Parley, model: OpenAIStub) -> None:
    model.play(summarised_by(lambda _: GOLDEN))
    await talk(parley)
    await pause_and_summarise(parley)
    await parley.sql("UPDATE conversations SET summary_due_at = now()")

    await summarise(parley)

    conversation = await row(parley)
    assert (conversation.summary, conversation.is_summarized, conversation.summary_due_at) == (GOLDEN, True, None)
    assert sum(is_summary(request.body) for request in model.requests) == 1


async def test_two_workers_write_one_summary(parley: Parley, model: OpenAIStub) -> None:
    model.play(summarised_by(lambda _: GOLDEN))
    await talk(parley)
    await pause(parley)

    await asyncio.gather(*(new_summarizer(parley).run() for _ in range(4)))
    await summarise(parley)

    assert sum(is_summary(request.body) for request in model.requests) == 1


async def test_a_worker_that_died_is_followed_by_another_one(parley: Parley, model: OpenAIStub) -> None:
    model.play(summarised_by(lambda _: GOLDEN))
    await talk(parley)
    await pause(parley)
    async with parley.app.database.transaction() as session:
        dead = (await claims.claim(session, 1))[0]
        assert await claims.hold(session, dead, 2500, cost=None)
    assert await parley.value("SELECT tokens_reserved FROM users") == 2500
    await summarise_after_lease(parley)

    async with parley.app.database.transaction() as session:
        assert not await claims.store(session, dead, claims.NewSummary("late", 1, None))
    assert (await row(parley)).summary == GOLDEN
    assert await parley.value("SELECT tokens_reserved FROM users") == 0
    # The provider may bill the call of the dead one: what it held is on the ledger, once.
    estimated = await parley.sql(
        "SELECT purpose, input_tokens, output_tokens, cost_estimate FROM token_logs WHERE is_estimated"
    )
    assert [tuple(entry) for entry in estimated] == [("summary", 2500, 0, None)]


async def test_a_frozen_worker_that_wakes_does_not_pay_its_call_a_second_time(
    parley: Parley, model: OpenAIStub
) -> None:
    await talk(parley)
    await pause(parley)
    is_asked, woken = asyncio.Event(), asyncio.Event()

    async def answer(_body: Any, _number: int) -> Answer:
        # The first request is that of the frozen worker.
        if not is_asked.is_set():
            is_asked.set()
            await woken.wait()
        return Answer(json.dumps({"summary": GOLDEN, "facts": []}))

    model.play(answer)
    frozen = asyncio.create_task(new_summarizer(parley).run())
    await is_asked.wait()
    await summarise_after_lease(parley)
    woken.set()
    await frozen

    paid = await parley.sql("SELECT is_estimated FROM token_logs WHERE purpose = 'summary' ORDER BY id")
    assert [entry.is_estimated for entry in paid] == [True, False]
    spent = await parley.value("SELECT sum(input_tokens + output_tokens) FROM token_logs")
    assert await parley.value("SELECT tokens_used_this_month FROM users") == spent
    assert await parley.value("SELECT tokens_reserved FROM users") == 0


async def summarise_after_lease(parley: Parley) -> None:
    await parley.sql("UPDATE conversations SET summary_claimed_until = now() - interval '1 second'")
    await summarise(parley)


async def test_the_person_pays_for_the_summary_of_a_direct_conversation(parley: Parley, model: OpenAIStub) -> None:
    model.play(summarised_by(lambda _: GOLDEN))
    await talk(parley)
    before = await parley.value("SELECT tokens_used_this_month FROM users")
    await pause_and_summarise(parley)

    logged = (await parley.sql("SELECT * FROM token_logs WHERE purpose = 'summary'"))[0]
    spent = logged.input_tokens + logged.output_tokens
    assert spent > 0
    assert logged.user_id == await parley.value("SELECT id FROM users")
    user = (await parley.sql("SELECT * FROM users"))[0]
    assert (user.tokens_used_this_month, user.tokens_reserved) == (before + spent, 0)


async def test_the_server_pays_for_the_summary_of_a_channel(parley: Parley, model: OpenAIStub) -> None:
    model.play(summarised_by(lambda _: GOLDEN))
    await parley.sql(
        "INSERT INTO servers (platform, platform_server_id, token_budget_monthly) VALUES ('test', 'guild', 1000000)"
    )
    await talk(parley, server="guild")
    person = await parley.value("SELECT tokens_used_this_month FROM users")
    server = await parley.value("SELECT tokens_used_this_month FROM servers")
    await pause_and_summarise(parley)

    logged = (await parley.sql("SELECT * FROM token_logs WHERE purpose = 'summary'"))[0]
    assert logged.user_id is None
    assert await parley.value("SELECT tokens_used_this_month FROM users") == person
    spent = logged.input_tokens + logged.output_tokens
    assert await parley.value("SELECT tokens_used_this_month FROM servers") == server + spent
    assert await parley.value("SELECT tokens_reserved FROM servers") == 0


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("Zelda has moved the launch of Falcon to 12 May.", "nobody spoke of Zelda"),
        ("", "the summary is empty"),
        ("qwertz uiop asdf ghjk yxcv", "the summary has little to do with what was said"),
        ("The launch of Falcon moves to 12 May. " * 200, "the summary has 7,599 characters, at most 4,000 are allowed"),
        (Answer(GOLDEN, finish_reason="length"), "the answer was cut"),
        (Fault(400), "no model answered"),
    ],
)
async def test_a_bad_summary_leaves_the_old_one_and_is_tried_again_later(
    parley: Parley, model: OpenAIStub, answer: Any, error: str
) -> None:
    model.play(summarised_by(lambda _: GOLDEN))
    await talk(parley)
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")
    await pause_and_summarise(parley)
    model.play(summarised_by(lambda _: answer))
    await parley.ask("Bob may write the manual of Falcon for the launch.")
    await pause_and_summarise(parley)

    conversation = await row(parley)
    assert (conversation.summary, conversation.is_summarized, conversation.summary_failures) == (GOLDEN, False, 1)
    assert conversation.summary_error.startswith(error)
    assert await parley.value("SELECT summary_due_at > now() + interval '30 seconds' FROM conversations")
    assert await parley.value("SELECT tokens_reserved FROM users") == 0
    model.play(summarised_by(lambda text: GOLDEN if error in text else "Zelda"))
    await parley.sql("UPDATE conversations SET summary_due_at = now()")
    await summarise(parley)
    assert (await row(parley)).summary_failures == 0


async def test_without_budget_the_summary_waits_and_no_model_is_called(parley: Parley, model: OpenAIStub) -> None:
    await talk(parley)
    await parley.sql("UPDATE users SET token_budget_monthly = 1")
    await pause_and_summarise(parley)

    conversation = await row(parley)
    assert (conversation.summary, conversation.summary_error) == (None, "the budget does not admit it")
    assert not any(is_summary(request.body) for request in model.requests)


async def test_a_deleted_message_is_gone_from_the_summary_at_once_and_from_the_next_one(
    parley: Parley, model: OpenAIStub
) -> None:
    prompts: list[str] = []

    def answer(text: str) -> str:
        prompts.append(text)
        return GOLDEN if len(prompts) == 1 else "The launch moves to 12 May."

    model.play(summarised_by(answer))
    await parley.ask("We move the launch of Falcon to 12 May.", event_id="kept")
    await pause_and_summarise(parley)
    await parley.ask("The budget is 4,200 euros. Who writes the manual?", event_id="secret")
    await pause_and_summarise(parley)
    storage = parley.app.files.storage

    await redact(parley.app.database, storage, platform="test", message_ids=["secret"])

    conversation = await row(parley)
    assert conversation.summary == GOLDEN
    assert conversation.is_summarized is False
    assert await parley.value("SELECT count(*) FROM summaries") == 1
    await summarise(parley)
    assert "4,200" not in prompts[-1].partition("What was said since")[2]
    await redact(parley.app.database, storage, platform="test", message_ids=["kept"])
    assert (await row(parley)).summary is None


async def test_a_summary_that_is_being_written_while_a_message_is_deleted_is_not_stored(
    parley: Parley, model: OpenAIStub
) -> None:
    await parley.ask("My number is 4711.", event_id="secret")
    await pause(parley)
    async with parley.app.database.transaction() as session:
        claimed = (await claims.claim(session, 1))[0]
    await redact(parley.app.database, parley.app.files.storage, platform="test", message_ids=["secret"])

    async with parley.app.database.transaction() as session:
        assert not await claims.store(session, claimed, claims.NewSummary("4711", 1, None))
    assert await parley.value("SELECT count(*) FROM summaries WHERE content = '4711'") == 0


async def test_an_edited_message_counts_as_it_reads_now(parley: Parley, model: OpenAIStub) -> None:
    prompts: list[str] = []

    def answer(text: str) -> str:
        prompts.append(text)
        return "The budget was named."

    model.play(summarised_by(answer))
    await parley.ask("The budget is 4,200 euros.", event_id="edited")
    await pause_and_summarise(parley)
    await change_message(parley.app.database, "test", "edited", "The budget is 9,900 euros.")

    assert (await row(parley)).summary is None
    await summarise(parley)
    assert "4,200" not in prompts[-1]
    assert "9,900" in (await row(parley)).summary


async def test_what_a_model_leaves_out_is_added_word_for_word(parley: Parley, model: OpenAIStub) -> None:
    model.play(summarised_by(lambda _: "They spoke about the launch of Falcon."))
    await talk(parley)
    await pause_and_summarise(parley)

    summary = (await row(parley)).summary
    assert "They spoke about the launch" in summary
    assert "12 May" in summary
    assert "4,200 euros" in summary


async def test_the_offline_model_extracts_and_pays_nothing(settings: Settings, address: Address) -> None:
    offline = settings.model_copy(update={"llm_models": (), "openai_base_url": None, "openai_api_key": None})
    async with OpenAIStub() as stub, open_parley(offline, address, stub) as parley:
        await talk(parley)
        await pause_and_summarise(parley)

        summary = (await row(parley)).summary
        assert "12 May" in summary
        assert "4,200 euros" in summary
        assert await parley.value("SELECT count(*) FROM token_logs WHERE purpose = 'summary'") == 0


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"llm_models": ("gpt-4o", "gpt-4o-mini", "unknown")}, "gpt-4o-mini"),
        ({"llm_models": ("unknown", "other")}, "unknown"),
        ({"llm_models": ("gpt-4o",), "summary_model": "claude-x"}, "claude-x"),
        ({"llm_models": ()}, None),
        ({"llm_models": ("gpt-4o",), "debug_mock_responses": json.dumps(["hi"])}, None),
    ],
)
async def test_the_cheapest_model_writes_summaries(
    settings: Settings, changes: dict[str, Any], name: str | None
) -> None:
    router = Router(settings.model_copy(update=changes), SystemClock())

    assert await router.find_summary_model() == name
    await router.aclose()
