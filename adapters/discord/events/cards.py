"""Reads Discord's embeds and polls as people see them."""

from collections.abc import Sequence

import discord

from adapters.chat.intake import Card, to_poll


def read_cards(message: discord.Message) -> list[Card]:
    """Return the embeds and the poll of a message."""
    cards = read_embeds(message.embeds)
    if message.poll is not None:
        cards.append(to_poll(message.poll.question, (answer.text or "" for answer in message.poll.answers)))
    return cards


def read_embeds(embeds: Sequence[discord.Embed]) -> list[Card]:
    """Return the embeds of a message or of a forwarded one."""
    cards = []
    for embed in embeds:
        beginning = [embed.author.name, embed.title, *(embed.description or "").splitlines()]
        fields = [f"{field.name}: {field.value}" for field in embed.fields]
        cards.append(Card([line for line in (*beginning, *fields, embed.footer.text) if line]))
    return cards
