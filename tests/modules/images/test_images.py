"""Pictures that models make and describe: files in the reply, on the ledger by the price of an image."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.tools.modules import discover
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.parley import Parley, open_parley
from tests.support.pictures import picture
from tests.support.tool_calls import variables

USER = "UPDATE users SET permission_level = 'user', token_budget_monthly = 100000"


@pytest.fixture
async def parley(settings: Settings, address: Address, model: OpenAIStub) -> AsyncIterator[Parley]:
    with variables(IMAGES_MODEL="openai/gpt-image-1"):
        async with open_parley(settings, address, model) as parley:
            await parley.sql("INSERT INTO personas (name, system_prompt, is_default) VALUES ('P', 'Be kind.', true)")
            await parley.ask("hello")
            await parley.sql(USER)
            yield parley


def calls(name: str, **arguments: Any) -> Answer:
    return Answer(tool_calls=[(f"images__{name}", arguments)])


async def test_a_picture_that_is_made_comes_with_the_reply_and_is_paid_for(parley: Parley, model: OpenAIStub) -> None:
    model.drawing_usage = {"usage": {"input_tokens": 20, "output_tokens": 4160, "total_tokens": 4180}}
    model.play([calls("generate_image", prompt="A red bridge", title="Bridge"), Answer("Here it is.")])

    reply = await parley.ask("draw a bridge")

    assert (reply.content, [file.filename for file in reply.files]) == ("Here it is.", ["Bridge.png"])
    assert model.drawings[0]["prompt"] == "A red bridge"
    (paid,) = await parley.sql("SELECT * FROM token_logs WHERE purpose = 'tool'")
    assert (paid.model, paid.input_tokens, paid.output_tokens) == ("openai/gpt-image-1", 20, 4160)
    assert paid.cost_estimate > 0.1
    assert not paid.is_estimated
    assert await parley.value("SELECT tokens_reserved FROM users") == 0


async def test_a_picture_without_reported_tokens_counts_as_the_setting_says(parley: Parley, model: OpenAIStub) -> None:
    model.play([calls("generate_image", prompt="A red bridge"), Answer("Here it is.")])

    await parley.ask("draw a bridge")

    (paid,) = await parley.sql("SELECT * FROM token_logs WHERE purpose = 'tool'")
    assert (paid.output_tokens, paid.is_estimated) == (5000, True)


async def test_a_refused_picture_is_an_error_that_helps(parley: Parley, model: OpenAIStub) -> None:
    model.play([calls("generate_image", prompt="something forbidden"), Answer("I can't draw that.")])

    reply = await parley.ask("draw it")

    assert reply.content == "I can't draw that."
    result = json.loads(model.requests[-1].body["messages"][-1]["content"])
    assert "refuses this request" in result["message"]
    assert await parley.value("SELECT count(*) FROM file_records") == 0


async def test_a_picture_is_described_by_a_model_that_sees(parley: Parley, model: OpenAIStub) -> None:
    await parley.app.files.storage.put("inbox/a.png", picture(), "image/png")
    await parley.ask("keep this", attachments=[parley.attach("a.png", "inbox/a.png", "image/png", size=100)])
    file_id = await parley.value("SELECT id FROM file_records")
    model.play([calls("describe_image", file_id=file_id), Answer("A red square."), Answer("It is red.")])

    reply = await parley.ask("what is on it?")

    assert reply.content == "It is red."
    parts = model.requests[-2].body["messages"][-1]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url"]
    assert parts[1]["image_url"]["url"].startswith("data:image/")


async def test_another_persons_picture_is_missing(parley: Parley, model: OpenAIStub) -> None:
    model.play([calls("describe_image", file_id=4711), Answer("There is none.")])

    await parley.ask("what is on it?")

    assert "There is no file" in json.loads(model.requests[-1].body["messages"][-1]["content"])["message"]


def test_without_a_model_no_picture_is_offered() -> None:
    assert "IMAGES_MODEL" in discover(settings=Settings()).off["images.generate_image"]
