"""What a turn recalls costs nothing, and no embedder gets its text, before all that may refuse the turn let it pass."""

import pytest

from shared.db.database import Address
from shared.messages import Place
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.parley import open_parley

SPENT = "INSERT INTO budgets (kind, token_limit) VALUES ('installation', 0)"
UNSPENT = "DELETE FROM budgets"
PAUSED = "UPDATE users SET paused_at = now()"
RESUMED = "UPDATE users SET paused_at = NULL"


@pytest.mark.parametrize(("refusing", "again"), [(SPENT, UNSPENT), (PAUSED, RESUMED)], ids=["no budget", "paused"])
async def test_no_embedder_is_paid_for_the_question_of_a_refused_turn(
    settings: Settings, address: Address, model: OpenAIStub, refusing: str, again: str
) -> None:
    embedding = settings.model_copy(update={"embedding_model": "openai/small"})
    async with open_parley(embedding, address, model) as parley:
        await parley.ask("hello")
        user_id = await parley.value("SELECT user_id FROM user_platform_links")
        place = parley.app.memory.of_user(user_id, Place("test", None, "dm-ann", is_direct=True), None)
        await place.remember("likes tea")
        await parley.sql(refusing)

        refused = [await parley.ask(f"which tea, question {number}") for number in range(3)]

        assert all(answer.error for answer in refused)
        await parley.sql(again)
        await parley.ask("which tea after all")
        questions = [request.body["input"] for request in model.embeddings if "which tea" in str(request.body["input"])]
        assert len(questions) == 1
        assert "which tea after all" in str(questions[0])
