"""The buttons below messages that are posted: changed by a click or by an edit of the question."""

from collections.abc import Sequence
from typing import Any

from adapters.chat.buttons import CHOICE, AnswerButtons, Button, ShownButton, to_label
from adapters.discord.sending.reply import GREEN, GREY, in_rows, to_component, to_rows
from adapters.discord.transport.rest import Json, Refused, Rest, insist
from shared.errors import Unavailable
from shared.log import get_logger

log = get_logger()


def chosen_rows(choices: Sequence[str], index: int) -> list[Json]:
    """Return the rows after a choice, all disabled."""
    buttons = [
        ShownButton(Button(CHOICE, 0, "", expires=0, index=number), to_label(choice))
        for number, choice in enumerate(choices)
    ]
    styles = [GREEN if number == index else GREY for number in range(len(choices))]
    pairs = zip(map(to_component, buttons), styles, strict=True)
    return in_rows([component | {"style": style, "disabled": True} for component, style in pairs])


async def replace_buttons(rest: Rest, answer: Any, answer_buttons: AnswerButtons) -> None:
    """Replace the buttons of a posted answer; `answer` is its outbox row."""
    channel_id = answer.platform_thread_id or answer.platform_channel_id
    path, body = "/channels/{channel_id}/messages/{message_id}", {"components": list(to_rows(answer_buttons))}
    try:
        await insist(
            lambda: rest.call("PATCH", path, body, channel_id=channel_id, message_id=answer.platform_message_id)
        )
    except (Refused, Unavailable) as error:
        # The message may be deleted, or visible to its asker only.
        log.info("buttons_not_changed", cause=str(error))
