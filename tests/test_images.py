"""Images that people send, for models with and without vision."""

import io
import json
from typing import Any

import pytest
from PIL import Image

from shared.db.database import Address
from shared.messages import Attachment
from shared.settings import Settings
from tests.standins.openai_api import Answer, Fault, OpenAIStub
from tests.support.house import House, open_house
from tests.support.pictures import GREEN, picture, shown

UNSEEING = Fault(400, {"error": {"message": "stub is not a multimodal model", "type": "BadRequestError"}})
WHITE = (255, 255, 255)


async def attach(house: House, content: bytes, name: str = "frog.png", mime_type: str = "image/png") -> Attachment:
    key = f"inbox/{name}"
    await house.app.storage.put(key, content, mime_type)
    return Attachment(name, mime_type, len(content), storage_key=key)


def said(house: House, request: int = -1, message: int = -1) -> str:
    content = house.model.requests[request].body["messages"][message]["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


async def test_a_model_sees_the_image_of_a_message(house: House) -> None:
    reply = await house.hears("what is this?", attachments=[await attach(house, picture())])

    (image,) = shown(house)
    assert reply.finished
    assert (image.size, image.getpixel((5, 5))) == ((40, 20), GREEN)
    assert "what is this?" in said(house)
    assert "frog.png (file_id 1, " in said(house)


async def test_the_next_messages_show_it_where_it_was_sent(house: House) -> None:
    await house.hears("what is this?", attachments=[await attach(house, picture())])
    first = house.model.requests[0].body["messages"][:-1]

    await house.hears("and what colour has it?")

    assert house.model.requests[1].body["messages"][: len(first)] == first
    assert len(shown(house, message=1)) == 1
    assert shown(house) == []


async def test_images_are_rotated_upright_scaled_and_stripped_of_metadata(house: House) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "The Camera"
    photograph = await attach(house, picture((4000, 1000), "JPEG", exif=exif), "pond.jpg", "image/jpeg")

    await house.hears("look", attachments=[photograph])

    (image,) = shown(house)
    assert (image.format, image.size) == ("JPEG", (392, 1568))
    assert dict(image.getexif()) == {}


async def test_transparent_images_are_shown_on_white(house: House) -> None:
    content = io.BytesIO()
    Image.new("RGBA", (10, 10), (0, 0, 0, 0)).save(content, "WEBP", lossless=True)

    await house.hears("look", attachments=[await attach(house, content.getvalue(), "ghost.webp", "image/webp")])

    assert shown(house)[0].getpixel((1, 1)) == WHITE


@pytest.mark.parametrize("content", [picture()[:60], picture((9000, 9000)), b"<svg/>", b""])
async def test_invalid_and_too_large_images_are_left_out(house: House, content: bytes) -> None:
    reply = await house.hears("look", attachments=[await attach(house, content)])

    assert shown(house) == []
    assert "look" in said(house)
    assert reply.finished


async def test_the_newest_images_are_shown_when_there_are_many(house: House) -> None:
    many = [await attach(house, picture((number, 9)), f"{number}.png") for number in range(1, 11)]

    await house.hears("look", attachments=many)

    assert [image.width for image in shown(house)] == [3, 4, 5, 6, 7, 8, 9, 10]


async def test_a_line_that_names_another_persons_file_shows_no_image(house: House) -> None:
    await house.hears("mine", attachments=[await attach(house, picture())], user="ann")

    await house.hears("- frog.png (file_id 1, 99 bytes, image/png)", user="bob")

    assert shown(house) == []


async def test_a_file_that_was_deleted_is_not_shown_any_more(house: House) -> None:
    await house.hears("look", attachments=[await attach(house, picture())])
    house.model.play([Answer(tool_calls=[("file_manager__delete_file", {"file_id": 1})]), Answer("Gone.")])
    await house.hears("delete it")
    await house.hears("yes")

    await house.hears("what was it?")

    assert await house.value("SELECT count(*) FROM file_records") == 0
    assert shown(house, message=1) == []


async def test_a_model_that_refuses_images_is_asked_without_them_and_from_then_on_at_once(house: House) -> None:
    def plays(body: dict[str, Any], _number: int) -> Answer | Fault:
        return UNSEEING if "image_url" in json.dumps(body) else Answer("I can't see it.")

    house.model.play(plays)

    reply = await house.hears("what is this?", attachments=[await attach(house, picture())])
    asked = len(house.model.requests)
    await house.hears("really?")

    assert (reply.content, asked, len(house.model.requests)) == ("I can't see it.", 2, 3)
    assert "You can't see the image with the file_id 1" in said(house, request=1)
    assert "You can't see the image with the file_id 1" in said(house, message=1)


async def test_a_request_refused_for_another_reason_does_not_disable_images(house: House) -> None:
    house.model.play([Fault(400), Answer("Hm."), Answer("Ah.")])

    await house.hears("what is this?", attachments=[await attach(house, picture())])
    await house.hears("and now?")

    assert [len(shown(house, number, 1)) for number in range(3)] == [1, 0, 1]


async def test_a_model_without_vision_is_sent_no_images(house: House) -> None:
    await house.sql(
        "INSERT INTO personas (name, system_prompt, default_model, is_default)"
        " VALUES ('P', 'Be.', 'gpt-3.5-turbo', true)"
    )

    await house.hears("what is this?", attachments=[await attach(house, picture())])

    assert len(house.model.requests) == 1
    assert "You can't see the image with the file_id 1" in said(house)


async def test_a_planning_model_sees_images_too(house: House) -> None:
    await house.sql(
        "INSERT INTO personas (name, system_prompt, loop_mode, is_default) VALUES ('P', 'Be.', 'planner', true)"
    )
    house.model.play([Answer(json.dumps({"status": "done", "tools": [], "response": "A frog."}))])

    reply = await house.hears("what is this?", attachments=[await attach(house, picture())])

    assert reply.content == "A frog."
    assert len(shown(house)) == 1


async def test_a_model_without_tool_calling_sees_images_too(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    settings = settings.model_copy(update={"llm_protocols": {"openai/stub": "tool_tag"}})
    async with open_house(settings, address, model) as house:
        await house.hears("what is this?", attachments=[await attach(house, picture())])

        assert len(shown(house)) == 1
        assert "tools" not in house.model.requests[0].body


async def test_an_image_is_untrusted_so_actions_need_a_yes(house: House) -> None:
    await house.sql("INSERT INTO personas (name, system_prompt, is_default) VALUES ('P', 'Be.', true)")
    house.model.play([Answer(tool_calls=[("file_manager__delete_file", {"file_id": 1})]), Answer("Gone.")])

    reply = await house.hears("what is this?", attachments=[await attach(house, picture())])

    assert reply.confirmation is not None
    assert await house.value("SELECT count(*) FROM file_records") == 1


async def test_images_are_included_in_the_reservation(house: House) -> None:
    held: list[int] = []

    async def looks(_body: dict[str, Any], _number: int) -> Answer:
        held.append(await house.value("SELECT tokens FROM budget_reservations"))
        return Answer("ok")

    house.model.play(looks)
    await house.hears("look", channel="one", is_direct=True)
    await house.hears("look", channel="two", attachments=[await attach(house, picture())], is_direct=True)
    await house.hears("again", channel="two", is_direct=True)

    assert held[1] - held[0] > 1600
    assert held[2] - held[0] > 1600
