"""A guest's month of tokens is twenty ordinary answers."""

import pytest

from shared.settings import Settings
from tests.standins.openai_api import Answer
from tests.support.parley import Parley

# What people ask in a chat, and what an agent says that answers briefly: 50 to 60 words.
QUESTIONS = (
    "What is the capital of Australia?",
    "And how many people live there?",
    "Can you suggest three names for a black cat?",
    "How long do I boil an egg so that it is still soft?",
    "What's the difference between affect and effect?",
    "Which plants survive in a dark bathroom?",
    "I have to tell my neighbour that the music is too loud. How do I put that kindly?",
    "What does HTTP status 418 mean?",
)
ANSWER = (
    "Canberra is the capital of Australia. It was chosen in 1908 as a compromise between Sydney and Melbourne, which"
    " both wanted to be it. About 470,000 people live there today, and the parliament moved in 1927. If you plan a"
    " visit, spring and autumn are the best seasons, because the summers are hot and the winters cold and dry."
)
USUAL = Settings.model_fields["default_guest_token_budget"].default


@pytest.mark.settings(default_guest_token_budget=USUAL)
async def test_a_guest_gets_twenty_ordinary_answers_in_one_conversation(parley: Parley) -> None:
    parley.model.play(lambda _body, _number: Answer(ANSWER))

    answers = [await parley.ask(QUESTIONS[number % len(QUESTIONS)]) for number in range(20)]

    assert [answer.error for answer in answers] == [None] * 20
    tokens = await parley.value("SELECT tokens_used_this_month FROM users")
    assert tokens == sum(answer.usage.total for answer in answers) <= USUAL

    while (last := await parley.ask("And then?")).error is None:
        assert await parley.value("SELECT count(*) FROM turns") < 60
    assert last.error == "budget_exhausted"
    assert "it renews on" in last.content
