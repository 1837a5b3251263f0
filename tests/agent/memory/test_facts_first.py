"""What was told is recalled before talk about it, also when the same is asked again and again in new chats."""

import re

from tests.shared.memory.test_recall import TOLD
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body, last_user_text
from tests.support.parley import Parley
from tests.support.summaries import pause_and_summarise, remembered, summarised_by

ROUNDS = 4


def list_recalled(body: Body) -> list[str]:
    """Return the memories in a prompt, without date, speaker and neighbours."""
    line = r'^- [^:]+: (?:\(after .*?"\) )?"?(.+?)"?(?: \(then .*\))?$'
    return re.findall(line, last_user_text(body), re.MULTILINE)


async def test_twelve_facts_stay_the_first_lines_after_four_rounds_of_questions(
    parley: Parley, model: OpenAIStub
) -> None:
    model.play(lambda _body, number: Answer("I looked it up for you." if number % 2 else "Gladly."))
    await parley.ask("Hello.", channel="told")
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")
    for statement in TOLD:
        await parley.ask(statement, channel="told")
    await remembered(parley)
    for round_number in range(1, ROUNDS + 1):
        first, others = 0, list[str]()
        for number, (fact, question) in enumerate(TOLD.items()):
            place = f"chat-{round_number}-{number}"
            await parley.ask(question, channel=place)
            recalled = list_recalled(model.requests[-1].body)
            first += recalled[:1] == [fact]
            others += [line for line in recalled if line == question or "thanks" in line.lower()]
            assert len(recalled) == len(set(recalled))
            await parley.ask("Thanks, great!", channel=place)
        await remembered(parley)

        assert first >= 11, round_number
        assert others == [], round_number


async def test_a_fact_is_recalled_without_the_turn_that_it_was_drawn_from(parley: Parley, model: OpenAIStub) -> None:
    fact = {"message": 1, "fact": "Ann's locker code is 4711.", "confidence": 0.9, "replaces": None}
    model.play(summarised_by(lambda _: {"summary": "Ann's locker code is 4711.", "facts": [fact]}))
    await parley.ask("My locker code is 4711.", channel="told")
    await remembered(parley)
    await pause_and_summarise(parley)

    await parley.ask("What is my locker code?", channel="asked")

    lines = [line for line in list_recalled(model.requests[-1].body) if "4711" in line]
    assert lines == ["Ann's locker code is 4711."]
