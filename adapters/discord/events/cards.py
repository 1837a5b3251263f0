"""Reads Discord's embeds and polls as people see them."""

from collections.abc import Sequence

import discord

from adapters.chat.cards import Card, to_poll


def read_cards(message: discord.Message) -> list[Card]:
    """Return the embeds and the poll of a message."""
    cards = read_embeds(message.embeds)
    if message.poll is not None:
        cards.append(to_poll(message.poll.question, (answer.text or "" for answer in message.poll.answers)))
    return cards


def read_embeds(embeds: Sequence[discord.Embed]) -> list[Card]:
    """Return the embeds of a message or of a forwarded one."""
    return [Card([line for line in _lines(embed) if line]) for embed in embeds]


def _lines(embed: discord.Embed) -> list[str]:
    fields = [f"{field.name}: {field.value}" for field in embed.fields]
    beginning = [embed.author.name or "", embed.title or "", *(embed.description or "").splitlines()]
    return [*beginning, *fields, embed.footer.text or ""]
