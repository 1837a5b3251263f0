"""The commands `/export`, `/erase` and `/confirm`: what people do with everything that is kept about them."""

from typing import Literal

from agent.commands.base import Answered, Command, Request, command
from agent.commands.signature import Id
from agent.personal_data.confirmations import (
    Confirmed,
    ask_for_confirmation,
    take_confirmed,
)
from agent.personal_data.erasure import erase, request_erasure
from agent.personal_data.export import store_archive
from agent.turn.confirmations.rows import deny_command
from shared.errors import Refusal, Unavailable
from shared.memory.own import forget_all, forget_own
from shared.messages import ReplyFile

STILL_SHOWN = (
    "The messages themselves stay in the history of their chats, and I may still read them there: /reset ends that."
)


@command("export")
async def export(request: Request, *_: str) -> Answered:
    """Send you everything that I keep about you, as a file that only you get."""
    app = request.app
    file = await store_archive(app.database, app.files.storage, request.user.id, clock=app.clock)
    reply_file = ReplyFile(file.file_id, file.filename, file.mime_type, size_bytes=file.size_bytes, url=file.url)
    text = "This is everything that I keep about you. The links in it are valid for a day."
    return Answered(text, files=(reply_file,))


erasure = Command(
    "erase",
    "Erase you: everything that I keep about you, on all platforms.",
    hint="Write /erase me to have everything erased that I keep about you.",
)


@erasure.subcommand("me")
async def erase_me(request: Request) -> Answered:
    """Erase you: everything that I keep about you, on all platforms."""
    async with request.app.database.transaction() as session:
        number = await ask_for_confirmation(session, request.user.id, "/erase me")
    text = (
        "I would erase your messages and my answers to them, your memories, your files and your linked accounts, on all"
        " platforms, and give you a signed receipt. This can't be undone."
    )
    return Answered(text, confirmation=number)


@command("confirm", hint="Write /confirm and the number that I have named, or /confirm no.")
async def confirm(request: Request, number: Id | Literal["no"]) -> str:
    """Do what I have asked you to confirm; with "no" instead of the number, drop it."""
    user_id = request.user.id
    async with request.app.database.transaction() as session:
        if number == "no":
            dropped = await deny_command(session, user_id)
            return "Nothing was changed." if dropped else "There was nothing to confirm."
        confirmed = await take_confirmed(session, user_id, number)
        match confirmed:
            case Confirmed("/memory forget"):
                count = await forget_own(session, user_id, confirmed.memory_ids)
                return (
                    f"I have forgotten {count:,} of your memories, and what else I had made of these messages."
                    f" {STILL_SHOWN}"
                )
            case Confirmed("/memory forget all"):
                count = await forget_all(session, user_id)
                return f"I have forgotten all of your memories, {count:,} of them. {STILL_SHOWN}"
            case _:
                erasure_id = await request_erasure(session, user_id)
    if erasure_id is None:
        raise Refusal("Nothing is kept about you.")
    try:
        erased = await erase(request.app.database, request.app.files.storage, erasure_id)
    except Unavailable:
        return (
            f"Your files can't be reached just now; as soon as they can, you are erased. Admins give out the receipt"
            f" with the command parley user erase {request.user.id}."
        )
    receipt = erased.to_receipt(request.app.secrets)
    return f"You are erased. Your receipt, which parley verify-receipt checks:\n```\n{receipt}\n```"
