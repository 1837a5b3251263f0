"""What somebody tries who wants more than is theirs, with a model that says whatever suits them."""

import pytest

from tests.house import House
from tests.standins.openai_api import Answer
from tests.standins.openai_api.script import Body


@pytest.mark.parametrize("count", [2**31, 10**15, 10**30])
async def test_a_count_that_cannot_be_is_not_believed_and_loses_no_answer(house: House, count: int) -> None:
    house.model.play([Answer("Here I am.", usage={"prompt_tokens": count, "completion_tokens": count})])

    reply = await house.hears("hello")

    assert reply.content == "Here I am."
    spent = await house.value("SELECT tokens_used_this_month FROM users")
    assert 0 < spent < 5000
    assert spent == reply.usage.total == await house.value("SELECT sum(input_tokens + output_tokens) FROM token_logs")


async def test_paid_answers_that_are_no_answers_end_with_the_budget(house: House) -> None:
    asked = []

    def think_only(body: Body, _number: int) -> Answer:
        asked.append(body)
        return Answer("<think>on and on</think>", usage={"prompt_tokens": 4000, "completion_tokens": 1000})

    house.model.play(think_only)

    reply = await house.hears("hello")

    assert len(asked) == 1
    assert (reply.error, reply.usage.total) == ("budget_exhausted", 5000)
    stored = await house.sql("SELECT tokens_used_this_month, tokens_reserved FROM users")
    assert [tuple(row) for row in stored] == [(5000, 0)]


async def test_a_paid_attempt_and_the_answer_after_it_are_each_on_the_ledger_once(house: House) -> None:
    wasted = Answer("", usage={"prompt_tokens": 700, "completion_tokens": 0})
    house.model.play([wasted, Answer("Here I am.", usage={"prompt_tokens": 800, "completion_tokens": 5})])

    reply = await house.hears("hello")

    assert (reply.content, reply.iterations, reply.usage.total) == ("Here I am.", 1, 1505)
    ledger = await house.sql("SELECT input_tokens + output_tokens FROM token_logs ORDER BY id")
    assert [row[0] for row in ledger] == [700, 805]
    stored = await house.sql("SELECT tokens_used_this_month, tokens_reserved, iterations FROM users, turns")
    assert [tuple(row) for row in stored] == [(1505, 0, 1)]
