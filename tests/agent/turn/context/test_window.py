"""What the summary holds leaves the history; what it does not hold stays until the model's window is full."""

from typing import Any

from agent.journal.steps import PastStep, Step
from agent.turn.context.builder import Window, drop_blocks
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.parley import Parley, open_parley
from tests.support.summaries import is_summary, summarise, summarised_by

WINDOW = Window(goal=100, most=400)


def turns(count: int, tokens: int = 10) -> list[PastStep]:
    return [PastStep(number, 1, Step(0, "user", "…", token_count=tokens)) for number in range(1, count + 1)]


def ids(past: list[PastStep]) -> list[int]:
    return [step.turn_id for step in past]


def test_what_the_summary_does_not_hold_stays() -> None:
    past = turns(30)

    assert drop_blocks(past, WINDOW, summarized_turn_id=0) == past


def test_what_the_summary_holds_is_dropped_down_to_half_of_what_is_wanted() -> None:
    assert ids(drop_blocks(turns(30), WINDOW, summarized_turn_id=30)) == [26, 27, 28, 29, 30]
    assert ids(drop_blocks(turns(30), WINDOW, summarized_turn_id=10)) == list(range(11, 31))


def test_more_than_the_model_takes_in_is_never_shown() -> None:
    steps = drop_blocks(turns(60), WINDOW, summarized_turn_id=0)

    assert sum(step.step.token_count for step in steps) == 200
    assert drop_blocks(turns(1, tokens=1000), WINDOW, summarized_turn_id=0) == []


def test_the_window_is_that_of_the_model_without_answer_and_tools() -> None:
    assert Window.of(128_000, reserved=8_000, goal=16_000) == Window(16_000, 118_000)
    assert Window.of(8_192, reserved=3_192, goal=16_000) == Window(2_250, 3_000)
    assert Window.of(None, reserved=2_000, goal=16_000) == Window(16_000, 28_000)
    assert Window.of(1_000, reserved=2_000, goal=16_000).most == 1


async def messages_of(parley: Parley, model: OpenAIStub) -> list[Any]:
    await parley.ask("What do you know?")
    body = next(request.body for request in reversed(model.requests) if not is_summary(request.body))
    return [str(message["content"]) for message in body["messages"]]


async def test_a_long_conversation_stays_whole_until_its_summary_is_there(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    small = settings.model_copy(update={"history_tokens": 1000, "default_guest_token_budget": 10**9})
    model.play(summarised_by(lambda _: "Ann numbers her messages; number 0 came first."))
    async with open_parley(small, address, model, works=True) as parley:
        for number in range(12):
            await parley.ask(f"This is number {number}. " + "lorem ipsum dolor " * 20)
        # The worker's own summariser may have come by already; without a summary nothing may be missing.
        await parley.sql(
            "UPDATE conversations SET summary = NULL, summarized_turn_id = 0, window_turn_id = 0,"
            " summary_claimed_until = now() + interval '1 hour'"
        )
        await parley.sql("DELETE FROM summaries")
        messages = await messages_of(parley, model)
        assert all(any(f"number {number}." in message for message in messages) for number in range(12))
        assert await parley.value("SELECT summary_is_urgent AND summary_due_at <= now() FROM conversations")

        await parley.sql("UPDATE conversations SET summary_claimed_until = NULL")
        await summarise(parley)
        messages = await messages_of(parley, model)

        assert "number 0 came first" in messages[0]
        assert not any("number 0. lorem" in message for message in messages[1:])
        assert any("number 11. lorem" in message for message in messages[1:])
        assert await parley.value("SELECT window_turn_id > 0 FROM conversations")
