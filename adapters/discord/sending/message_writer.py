"""Where one answer is written: as messages of a channel, or as the response to a command."""

import asyncio
from collections.abc import Sequence
from typing import Protocol, cast

from adapters.chat.uploads import Upload
from adapters.discord.transport.rest import CANNOT_READ_HISTORY, GONE, Json, Refused, Rest
from shared.messages import Place

SUPPRESS_EMBEDS, EPHEMERAL = 1 << 2, 1 << 6
# What an answer replies to, when that is no message: the response to an interaction, which all can read or one person
# alone, or what follows such a response.
INTERACTION, WHISPER, ASIDE = "interaction", "whisper", "aside"
# A worker may be faster than the acknowledgement of the command that it answers.
UNKNOWN_WAITS = (0.2, 0.3, 0.5, 0.5)


class MessageWriter(Protocol):
    """Writes and changes messages; `nonce` names a message, so that it is made once."""

    async def write(self, body: Json, nonce: str, files: Sequence[Upload] = ()) -> Json:
        """Make a message and return it; the same nonce again gives the message that is there."""
        ...

    async def change(self, message_id: str, body: Json, files: Sequence[Upload] = ()) -> Json:
        """Change a message."""
        ...

    async def type(self) -> None:
        """Show that somebody is writing."""
        ...


class ChannelWriter:
    """Messages of a channel, a thread or a direct conversation; the first one refers to the question."""

    def __init__(self, rest: Rest, place: Place, reply_to: str | None) -> None:
        self._rest = rest
        self._channel = place.thread or place.channel
        # A thread that was made for a question does not hold it: it is named after it.
        self._reply_to = reply_to if reply_to and reply_to.isdecimal() and reply_to != place.thread else None

    async def write(self, body: Json, nonce: str, files: Sequence[Upload] = ()) -> Json:
        """Post a message once."""
        body = body | {"nonce": nonce, "enforce_nonce": True, "flags": SUPPRESS_EMBEDS}
        if self._reply_to is not None:
            reference = {"message_id": self._reply_to, "channel_id": self._channel, "fail_if_not_exists": False}
            body["message_reference"] = reference
            self._reply_to = None
        try:
            return await self._post(body, files)
        except Refused as error:
            if error.number != CANNOT_READ_HISTORY:
                raise
            # Without the right to read the history nothing can be referred to.
            del body["message_reference"]
            return await self._post(body, files)

    async def change(self, message_id: str, body: Json, files: Sequence[Upload] = ()) -> Json:
        """Edit a message."""
        path = "/channels/{channel_id}/messages/{message_id}"
        body = body | {"flags": SUPPRESS_EMBEDS}
        changed: Json = await self._rest.call(
            "PATCH", path, body, files, channel_id=self._channel, message_id=message_id
        )
        return changed

    async def type(self) -> None:
        """Show that somebody is writing."""
        await self._rest.type(self._channel)

    async def _post(self, body: Json, files: Sequence[Upload]) -> Json:
        path = "/channels/{channel_id}/messages"
        made: Json = await self._rest.call("POST", path, body, files, channel_id=self._channel)
        return made


class ResponseWriter:
    """The response to a command: its first message is there already, and says that an answer is being thought about.

    With `is_private` the person alone reads it; with `follows` the response says something else, and all of it follows.
    """

    def __init__(self, rest: Rest, token: str, *, is_private: bool = False, follows: bool = False) -> None:
        self._rest, self._token = rest, token
        self.is_private, self._follows = is_private, follows

    async def write(self, body: Json, nonce: str, files: Sequence[Upload] = ()) -> Json:
        """Fill the response, or follow it up."""
        if nonce.endswith("-0") and not self._follows:
            return await self.change("@original", body, files)
        flags = SUPPRESS_EMBEDS | (EPHEMERAL if self.is_private else 0)
        return await self._call("POST", "/webhooks/{webhook_id}/{webhook_token}", body | {"flags": flags}, files)

    async def change(self, message_id: str, body: Json, files: Sequence[Upload] = ()) -> Json:
        """Change the response."""
        path = "/webhooks/{webhook_id}/{webhook_token}/messages/{message_id}"
        return await self._call("PATCH", path, body | {"flags": SUPPRESS_EMBEDS}, files, message_id=message_id)

    async def type(self) -> None:
        """The response shows it already."""

    async def _call(self, method: str, path: str, body: Json, files: Sequence[Upload], message_id: str = "") -> Json:
        me = await self._rest.me()
        ids: Json = {"webhook_id": str(me["id"]), "webhook_token": self._token, "message_id": message_id}
        for wait in (*UNKNOWN_WAITS, None):
            try:
                return cast("Json", await self._rest.call(method, path, body, files, **ids))
            except Refused as error:
                if error.number not in GONE or wait is None:
                    raise
                await asyncio.sleep(wait)
        raise AssertionError("the last try returns or raises")


def writer_for(rest: Rest, place: Place, reply_to: str | None) -> MessageWriter:
    """Return the writer for an answer to this message, or to the command that `reply_to` names."""
    kind, _, token = (reply_to or "").partition(":")
    if kind in (INTERACTION, WHISPER, ASIDE):
        return ResponseWriter(rest, token, is_private=kind != INTERACTION, follows=kind == ASIDE)
    return ChannelWriter(rest, place, reply_to)
