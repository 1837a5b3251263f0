"""Writes an answer as the response to an interaction."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from adapters.chat.parts import Upload
from adapters.discord.transport.rest import GONE, USUAL, Json, Manner, Refused, Rest

SUPPRESS_EMBEDS, EPHEMERAL = 1 << 2, 1 << 6
# The prefix of a `reply_to` that is an interaction: a public response, a private one, or a private follow-up, as
# clicks were answered before.
INTERACTION, WHISPER, ASIDE = INTERACTIONS = "interaction", "whisper", "aside"
PRIVATE = (WHISPER, ASIDE)
# Waits before retries: a worker may be faster than the acknowledgement of the command.
UNKNOWN_WAITS = (0.2, 0.3, 0.5, 0.5)


class ResponseWriter:
    """The response to an interaction, whose first message exists already and shows "is thinking…".

    `is_private`: only the person sees it. `follows`: the response is used already, and everything is a follow-up.
    `was_tried`: follow-ups may exist already, and are looked for before they are posted: they have no nonce.
    """

    def __init__(
        self,
        rest: Rest,
        token: str,
        *,
        is_private: bool = False,
        follows: bool = False,
        was_tried: bool = False,
        manner: Manner = USUAL,
    ) -> None:
        self._rest, self._token, self._manner = rest, token, manner
        self.is_private, self._follows, self._was_tried = is_private, follows, was_tried
        self._first: Json = {}
        self._follow_ups: list[Json] | None = None

    async def write(self, body: Json, nonce: str, files: Sequence[Upload] = ()) -> Json:
        """Edit the response, or post a follow-up; raises `Unavailable` if it is unknown whether that was posted."""
        if nonce.endswith("-0") and not self._follows:
            return await self.change("@original", body, files)
        if self._was_tried:
            if self._follow_ups is None:
                # Private ones are in no history.
                self._follow_ups = [] if self.is_private or not self._first else await self._list_posted()
            text = body["content"].strip()
            follow_up = next((post for post in self._follow_ups if post["content"].strip() == text), None)
            if follow_up is not None:
                # Two parts may have the same text.
                self._follow_ups.remove(follow_up)
                return follow_up
        flags = SUPPRESS_EMBEDS | (EPHEMERAL if self.is_private else 0)
        path = "/webhooks/{webhook_id}/{webhook_token}"
        once = replace(self._manner, is_repeated=False)
        return await self._call("POST", path, body | {"flags": flags}, files=files, manner=once)

    async def find_answer(self) -> Json | None:
        """Return the response if it says something already; None if it says nothing yet."""
        path = "/webhooks/{webhook_id}/{webhook_token}/messages/{message_id}"
        message = await self._call("GET", path, None, files=(), manner=self._manner, message_id="@original")
        return message if message["content"].strip() else None

    async def _list_posted(self) -> list[Json]:
        query = {"after": str(self._first["id"]), "limit": "100"}
        me, channel_id = await self._rest.me(), str(self._first["channel_id"])
        path = "/channels/{channel_id}/messages"
        try:
            after: list[Json] = await self._rest.call("GET", path, query=query, channel_id=channel_id)
        except Refused:
            return []
        follow_ups = []
        for message in reversed(after):
            origin = message.get("interaction_metadata") or {}
            first_id = origin.get("original_response_message_id", self._first["id"])
            is_follow_up = first_id == self._first["id"] and bool(origin or message.get("webhook_id"))
            if message["author"]["id"] == me["id"] and is_follow_up:
                follow_ups.append(message)
        return follow_ups

    async def change(self, message_id: str, body: Json, files: Sequence[Upload] = ()) -> Json:
        """Edit the response."""
        path = "/webhooks/{webhook_id}/{webhook_token}/messages/{message_id}"
        body = body | {"flags": SUPPRESS_EMBEDS}
        message = await self._call("PATCH", path, body, files=files, manner=self._manner, message_id=message_id)
        self._first = self._first or message
        return message

    async def type(self) -> None:
        """Do nothing: the response shows "is thinking…"."""

    async def _call(
        self, method: str, path: str, body: Json | None, *, files: Sequence[Upload], manner: Manner, **ids: Any
    ) -> Json:
        me = await self._rest.me()
        ids |= {"webhook_id": str(me["id"]), "webhook_token": self._token}
        for wait in (*UNKNOWN_WAITS, None):
            try:
                return cast("Json", await self._rest.call(method, path, body, files=files, manner=manner, **ids))
            except Refused as error:
                if error.platform_code not in GONE or wait is None:
                    raise
                await asyncio.sleep(wait)
        raise AssertionError("the last try returns or raises")


def is_private(reply_to: str | None) -> bool:
    """Return whether the response to the interaction that `reply_to` names is seen by one person only."""
    return (reply_to or "").partition(":")[0] in PRIVATE
