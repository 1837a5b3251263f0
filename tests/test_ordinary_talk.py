"""How often people are asked for a yes in ordinary talk: never in these."""

from shared.db.database import Address
from shared.settings import Settings
from tests.agentdojo.dialogues import count_questions, open_village
from tests.standins.openai_api import OpenAIStub


async def test_ordinary_talk_in_channels_is_never_interrupted_by_a_question(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_village(settings, address, model) as parley:
        turns, questions = await count_questions(parley)

    assert turns >= 50
    assert questions == []
