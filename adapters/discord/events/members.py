"""The members behind messages from the history, which names only their accounts; roles belong to the member."""

from collections import OrderedDict

import discord

from adapters.discord.transport.rest import Refused, in_background, insist
from shared.errors import Unavailable

MOST_REMEMBERED = 10_000


class Members:
    """The members that were looked up, each once until `forget`."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int], discord.Member | None] = OrderedDict()

    async def complete(self, message: discord.Message) -> None:
        """Replace the author of a server message by the member, as far as Discord names one."""
        guild, author = message.guild, message.author
        if guild is None or not isinstance(author, discord.User):
            return
        key = (guild.id, author.id)
        try:
            if key not in self._known:
                with in_background():
                    self._known[key] = await insist(lambda: guild.fetch_member(author.id))
        except Refused:
            # A person who has left the server has no roles.
            self._known[key] = None
        except Unavailable:
            return
        message.author = self._known[key] or author
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Look everybody up again the next time, because roles change."""
        self._known.clear()
