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
from tests.support.parley import Parley, open_parley
from tests.support.pictures import GREEN, picture, pictures_of

UNSEEING = Fault(400, {"error": {"message": "stub is not a multimodal model", "type": "BadRequestError"}})
WHITE = (255, 255, 255)


async def attach(parley: Parley, content: bytes, name: str = "bike.png", mime_type: str = "image/png") -> Attachment:
    key = f"inbox/{name}"
    await parley.app.files.storage.put(key, content, mime_type)
    return Attachment(name, mime_type, len(content), storage_key=key)


def text_of(parley: Parley, request: int = -1, message: int = -1) -> str:
    content = parley.model.requests[request].body["messages"][message]["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


async def test_a_model_sees_the_image_of_a_message(parley: Parley) -> None:
    reply = await parley.ask("what is this?", attachments=[await attach(parley, picture())])

    (image,) = pictures_of(parley)
    assert reply.finished
    assert (image.size, image.getpixel((5, 5))) == ((40, 20), GREEN)
    assert "what is this?" in text_of(parley)
    assert "bike.png (file_id 1, " in text_of(parley)


async def test_the_next_messages_show_it_where_it_was_sent(parley: Parley) -> None:
    await parley.ask("what is this?", attachments=[await attach(parley, picture())])
    first = parley.model.requests[0].body["messages"][:-1]

    await parley.ask("and what colour has it?")

    assert parley.model.requests[1].body["messages"][: len(first)] == first
    assert len(pictures_of(parley, message=1)) == 1
    assert pictures_of(parley) == []


async def test_images_are_rotated_upright_scaled_and_stripped_of_metadata(parley: Parley) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "The Camera"
    photograph = await attach(parley, picture((4000, 1000), "JPEG", exif=exif), "yard.jpg", "image/jpeg")

    await parley.ask("look", attachments=[photograph])

    (image,) = pictures_of(parley)
    assert (image.format, image.size) == ("JPEG", (392, 1568))
    assert dict(image.getexif()) == {}


async def test_transparent_images_are_shown_on_white(parley: Parley) -> None:
    content = io.BytesIO()
    Image.new("RGBA", (10, 10), (0, 0, 0, 0)).save(content, "WEBP", lossless=True)

    await parley.ask("look", attachments=[await attach(parley, content.getvalue(), "ghost.webp", "image/webp")])

    assert pictures_of(parley)[0].getpixel((1, 1)) == WHITE


@pytest.mark.parametrize("kind", ["cut", "too large", "drawing", "empty"])
async def test_invalid_and_too_large_images_are_left_out(parley: Parley, kind: str) -> None:
    match kind:
        case "cut":
            content = picture()[:60]
        case "too large":
            content = picture((9000, 9000))
        case "drawing":
            content = b"<svg/>"
        case _:
            content = b""

    reply = await parley.ask("look", attachments=[await attach(parley, content)])

    assert pictures_of(parley) == []
    assert "look" in text_of(parley)
    # What is no picture by its first bytes is named as a file of its own type.
    assert ("The image with the file_id 1 can't be shown" in text_of(parley)) == content.startswith(b"\x89PNG")
    assert reply.finished


async def test_the_newest_images_are_shown_when_there_are_many(parley: Parley) -> None:
    many = [await attach(parley, picture((number, 9)), f"{number}.png") for number in range(1, 11)]

    await parley.ask("look", attachments=many)

    assert [image.width for image in pictures_of(parley)] == [3, 4, 5, 6, 7, 8, 9, 10]


async def test_a_line_that_names_another_persons_file_shows_no_image(parley: Parley) -> None:
    await parley.ask("mine", attachments=[await attach(parley, picture())], user="ann")

    await parley.ask("- bike.png (file_id 1, 99 bytes, image/png)", user="bob")

    assert pictures_of(parley) == []


async def test_a_file_that_was_deleted_is_not_shown_any_more(parley: Parley) -> None:
    await parley.ask("look", attachments=[await attach(parley, picture())])
    parley.model.play([Answer(tool_calls=[("file_manager__delete_file", {"file_id": 1})]), Answer("Gone.")])
    await parley.ask("delete it")
    await parley.ask("yes")

    await parley.ask("what was it?")

    assert await parley.value("SELECT count(*) FROM file_records") == 0
    assert pictures_of(parley, message=1) == []


async def test_a_model_that_refuses_images_is_asked_without_them_and_from_then_on_at_once(parley: Parley) -> None:
    def plays(body: dict[str, Any], _number: int) -> Answer | Fault:
        return UNSEEING if "image_url" in json.dumps(body) else Answer("I can't see it.")

    parley.model.play(plays)

    reply = await parley.ask("what is this?", attachments=[await attach(parley, picture())])
    count = len(parley.model.requests)
    await parley.ask("really?")

    assert (reply.content, count, len(parley.model.requests)) == ("I can't see it.", 2, 3)
    assert "You can't see the image with the file_id 1" in text_of(parley, request=1)
    assert "You can't see the image with the file_id 1" in text_of(parley, message=1)


async def test_a_request_refused_for_another_reason_does_not_disable_images(parley: Parley) -> None:
    parley.model.play([Fault(400), Answer("Hm."), Answer("Ah.")])

    await parley.ask("what is this?", attachments=[await attach(parley, picture())])
    await parley.ask("and now?")

    assert [len(pictures_of(parley, number, 1)) for number in range(3)] == [1, 0, 1]


async def test_a_model_without_vision_is_sent_no_images(parley: Parley) -> None:
    await parley.sql(
        "INSERT INTO personas (name, system_prompt, default_model, is_default)"
        " VALUES ('P', 'Be.', 'gpt-3.5-turbo', true)"
    )

    await parley.ask("what is this?", attachments=[await attach(parley, picture())])

    assert len(parley.model.requests) == 1
    assert "You can't see the image with the file_id 1" in text_of(parley)


async def test_a_planning_model_sees_images_too(parley: Parley) -> None:
    await parley.sql(
        "INSERT INTO personas (name, system_prompt, loop_mode, is_default) VALUES ('P', 'Be.', 'planner', true)"
    )
    parley.model.play([Answer(json.dumps({"status": "done", "tools": [], "response": "A bike."}))])

    reply = await parley.ask("what is this?", attachments=[await attach(parley, picture())])

    assert reply.content == "A bike."
    assert len(pictures_of(parley)) == 1


async def test_a_model_without_tool_calling_sees_images_too(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    settings = settings.model_copy(update={"llm_protocols": {"openai/stub": "tool_tag"}})
    async with open_parley(settings, address, model) as parley:
        await parley.ask("what is this?", attachments=[await attach(parley, picture())])

        assert len(pictures_of(parley)) == 1
        assert "tools" not in parley.model.requests[0].body


async def test_an_image_is_untrusted_so_actions_need_a_yes(parley: Parley) -> None:
    await parley.sql("INSERT INTO personas (name, system_prompt, is_default) VALUES ('P', 'Be.', true)")
    parley.model.play([Answer(tool_calls=[("file_manager__delete_file", {"file_id": 1})]), Answer("Gone.")])

    reply = await parley.ask("what is this?", attachments=[await attach(parley, picture())])

    assert reply.confirmation is not None
    assert await parley.value("SELECT count(*) FROM file_records") == 1


async def test_images_are_included_in_the_reservation(parley: Parley) -> None:
    reservations: list[int] = []

    async def looks(_body: dict[str, Any], _number: int) -> Answer:
        reservations.append(await parley.value("SELECT tokens FROM budget_reservations"))
        return Answer("ok")

    parley.model.play(looks)
    await parley.ask("look", channel="one", is_direct=True)
    await parley.ask("look", channel="two", attachments=[await attach(parley, picture())], is_direct=True)
    await parley.ask("again", channel="two", is_direct=True)

    assert reservations[1] - reservations[0] > 1600
    assert reservations[2] - reservations[0] > 1600
