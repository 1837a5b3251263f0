"""Facts come from a chat that goes on, not only after a pause: once, paid, and of nothing that was forgotten."""

import json
from collections.abc import Callable
from typing import Any

from agent.commands import answer
from agent.memory.summaries.ongoing import TOKENS, TURNS, FactReader
from agent.queue.redaction import redact
from shared.clock import SystemClock
from shared.messages import Place, Sender
from tests.standins.openai_api import Answer, OpenAIStub, Reply
from tests.standins.openai_api.script import Body, last_user_text
from tests.support.parley import Parley
from tests.support.summaries import is_summary, memories, pause_and_summarise, summarised_by

ANN, DIRECT = Sender("test", "ann", "Ann"), Place("test", None, "dm-ann", is_direct=True)
CALLS = "SELECT count(*) FROM token_logs WHERE purpose = 'summary'"


def asks_for_facts(body: Body) -> bool:
    return str(body["messages"][0]["content"]).startswith("You list the facts")


def fact(number: int, content: str) -> dict[str, Any]:
    return {"message": number, "fact": content, "confidence": 0.9, "replaces": None}


def read_by(answer: Callable[[str], list[dict[str, Any]] | Reply]) -> Callable[[Body, int], Reply]:
    """Return a script that answers requests for facts."""

    def play(body: Body, _number: int) -> Reply:
        if not asks_for_facts(body):
            return Answer("Noted.")
        reply = answer(last_user_text(body))
        return Answer(json.dumps({"facts": reply})) if isinstance(reply, list) else reply

    return play


def find_number(transcript: str, text: str) -> int:
    """Return the number of the message that holds this."""
    line = next(line for line in transcript.splitlines() if text in line)
    return int(line.split()[0].removeprefix("#"))


async def chat(parley: Parley, turns: int, text: str = "I live in Lisbon with my sister Clara.") -> None:
    await parley.ask(text)
    for number in range(1, turns):
        await parley.ask(f"What about number {number}?")


async def read_facts(parley: Parley) -> None:
    await FactReader(parley.app.database, parley.app.models.router, parley.app.memory, SystemClock()).run()


async def facts(parley: Parley) -> list[str]:
    return [row["content"] for row in await memories(parley) if row["source"] == "fact"]


def count_readings(model: OpenAIStub) -> int:
    return sum(asks_for_facts(request.body) for request in model.requests)


def lives_in_lisbon(transcript: str) -> list[dict[str, Any]]:
    if "Lisbon" not in transcript.split("said since:")[1]:
        return []
    return [fact(find_number(transcript, "I live in Lisbon"), "Ann lives in Lisbon with her sister Clara.")]


async def unlimited(parley: Parley) -> None:
    await parley.ask("Hello.", channel="another")
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")


async def test_facts_are_drawn_from_a_chat_of_twenty_turns_that_goes_on(parley: Parley, model: OpenAIStub) -> None:
    model.play(read_by(lives_in_lisbon))
    await unlimited(parley)
    await chat(parley, TURNS - 1)
    await read_facts(parley)
    assert count_readings(model) == 0

    await parley.ask("And one more.")
    await read_facts(parley)
    await read_facts(parley)

    assert count_readings(model) == 1
    assert await parley.value(f"{CALLS} AND user_id IS NOT NULL AND NOT is_estimated") == 1
    assert await parley.value("SELECT count(*) FROM conversations WHERE summary IS NOT NULL") == 0
    # The next turn, in another chat, recalls it.
    await parley.ask("Where do I live?", channel="third")
    assert "Ann lives in Lisbon with her sister Clara." in last_user_text(model.requests[-1].body)


async def test_so_they_are_from_two_thousand_tokens(parley: Parley, model: OpenAIStub) -> None:
    model.play(read_by(lives_in_lisbon))
    await unlimited(parley)
    await parley.ask(
        "I live in Lisbon with my sister Clara. " + "It is a long story, as you will see. " * (TOKENS // 9)
    )
    await parley.ask("That was it.")

    await read_facts(parley)

    assert count_readings(model) == 1


async def test_the_summary_after_a_pause_draws_no_facts_from_the_same_turns(parley: Parley, model: OpenAIStub) -> None:
    model.play(read_by(lives_in_lisbon))
    await unlimited(parley)
    await chat(parley, TURNS)
    await read_facts(parley)
    await parley.ask("I own a green bicycle.")
    summary = "Ann lives in Lisbon with her sister Clara and owns a green bicycle."

    def summarise(transcript: str) -> dict[str, Any]:
        again = fact(
            find_number(transcript, "I live in Lisbon"), "Ann and her sister Clara live together in Lisbon town."
        )
        new = fact(find_number(transcript, "bicycle"), "Ann owns a green bicycle.")
        return {"summary": summary, "facts": [again, new]}

    model.play(summarised_by(summarise))
    await pause_and_summarise(parley)
    model.play(read_by(lives_in_lisbon))
    await chat(parley, 1)
    await read_facts(parley)

    assert any(is_summary(request.body) for request in model.requests)
    assert await facts(parley) == ["Ann lives in Lisbon with her sister Clara.", "Ann owns a green bicycle."]


async def test_what_is_deleted_while_the_model_reads_it_gives_no_fact(parley: Parley, model: OpenAIStub) -> None:
    await unlimited(parley)
    await parley.ask("I live in Lisbon with my sister Clara.", event_id="said")
    await chat(parley, TURNS - 1, text="What about it?")

    async def delete_meanwhile(body: Body, _number: int) -> Reply:
        if not asks_for_facts(body):
            return Answer("Noted.")
        facts = lives_in_lisbon(last_user_text(body))
        storage = parley.app.files.storage
        await redact(parley.app.database, storage, platform="test", message_ids=["said"])
        return Answer(json.dumps({"facts": facts}))

    model.play(delete_meanwhile)
    await read_facts(parley)

    assert count_readings(model) >= 1
    assert await facts(parley) == []
    # The call is paid all the same, as an estimate, by who reads the conversation next.
    await pause_and_summarise(parley)
    assert await parley.value(f"{CALLS} AND is_estimated") == 1


async def test_what_was_said_during_a_pause_of_the_memory_is_not_read(parley: Parley, model: OpenAIStub) -> None:
    model.play(read_by(lives_in_lisbon))
    await unlimited(parley)
    await parley.ask("Hello.")
    paused = await answer(parley.app, ANN, DIRECT, "/memory pause")
    await chat(parley, 2)
    await answer(parley.app, ANN, DIRECT, "/memory resume")
    await chat(parley, TURNS - 1, text="What about it?")

    await read_facts(parley)

    assert paused is not None
    assert count_readings(model) == 1
    assert "Lisbon" not in "".join(
        last_user_text(request.body) for request in model.requests if asks_for_facts(request.body)
    )


async def test_a_worker_that_died_while_reading_is_followed_by_another_and_paid(
    parley: Parley, model: OpenAIStub
) -> None:
    model.play(read_by(lives_in_lisbon))
    await unlimited(parley)
    await chat(parley, TURNS)
    # What a worker leaves that was killed during its call.
    await parley.sql(
        "WITH dead AS (UPDATE conversations SET summary_claimed_until = now() - interval '1 second'"
        " WHERE platform_channel_id <> 'another' RETURNING id)"
        " INSERT INTO budget_reservations (conversation_id, tokens, expires_at)"
        " SELECT id, 1500, now() + interval '1 minute' FROM dead"
    )

    await read_facts(parley)

    assert await facts(parley) == ["Ann lives in Lisbon with her sister Clara."]
    assert await parley.value(f"{CALLS} AND is_estimated") == 1
    assert await parley.value("SELECT count(*) FROM budget_reservations") == 0


async def test_who_has_no_budget_left_pays_for_no_reading(parley: Parley, model: OpenAIStub) -> None:
    model.play(read_by(lives_in_lisbon))
    await unlimited(parley)
    await chat(parley, TURNS)
    await parley.sql("UPDATE users SET token_budget_monthly = 1")

    await read_facts(parley)

    assert count_readings(model) == 0
    statement = "SELECT facts_retry_at > now() FROM conversations WHERE facts_failures = 1"
    assert await parley.value(statement) is True


async def test_an_answer_that_is_no_json_is_tried_again_later(parley: Parley, model: OpenAIStub) -> None:
    model.play(read_by(lambda _: Answer("I can't do that.")))
    await unlimited(parley)
    await chat(parley, TURNS)
    await read_facts(parley)
    await read_facts(parley)
    assert count_readings(model) == 1

    model.play(read_by(lives_in_lisbon))
    await parley.sql("UPDATE conversations SET facts_retry_at = now() WHERE facts_retry_at IS NOT NULL")
    await read_facts(parley)

    assert await facts(parley) == ["Ann lives in Lisbon with her sister Clara."]
    assert await parley.value("SELECT max(facts_failures) FROM conversations") == 0
