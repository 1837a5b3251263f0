"""Converts Discord's events to our messages, without I/O."""

import re
from collections.abc import Iterator, Sequence

import discord
from msgspec.structs import replace

from adapters.chat.addressing import Addressing
from adapters.chat.intake import Card, quote, render_cards, to_context, to_file, to_poll
from shared.messages import Attachment, IncomingMessage, Place, PlatformContext, QuotedMessage, Sender
from shared.text import clean, to_plain_name

PLATFORM = "discord"
WRITTEN_BY_PEOPLE = (discord.MessageType.default, discord.MessageType.reply)
USER, ROLE, CHANNEL, EMOJI = (
    re.compile(pattern) for pattern in (r"<@!?(\d+)>", r"<@&(\d+)>", r"<#(\d+)>", r"<a?:(\w+):\d+>")
)


def to_incoming(
    message: discord.Message,
    me: int,
    earlier: Sequence[QuotedMessage] = (),
    *,
    adapter: str = PLATFORM,
    thread_id: str | None = None,
) -> IncomingMessage:
    """Return the event as an `IncomingMessage`; `thread_id` is a thread that was opened for this question."""
    return IncomingMessage(
        adapter=adapter,
        sender=to_sender(message.author),
        place=to_place(message.channel, message.guild, thread_id),
        event_id=str(message.id),
        content=to_text(message, me),
        sent_at=message.created_at,
        attachments=tuple(list_files(message)),
        platform_message_id=str(message.id),
        platform_context=to_platform_context(
            message.author, message.channel, message.guild, earlier=[*earlier, *to_forwarded(message)]
        ),
        replied_to=find_replied_to(message),
    )


def find_replied_to(message: discord.Message) -> str | None:
    """Return the id of the message that this one replies to; None if it is no reply."""
    reference = message.reference
    # A forwarded message refers to its original, which may be anywhere.
    if reference is None or reference.message_id is None or message.type is not discord.MessageType.reply:
        return None
    return str(reference.message_id)


def to_sender(author: discord.User | discord.Member) -> Sender:
    """Return the author with the display name on this server."""
    return Sender(PLATFORM, str(author.id), clean(author.display_name))


def to_place(channel: object, guild: discord.Guild | None, thread_id: str | None = None) -> Place:
    """Return the place of a message; a thread belongs to its channel.

    Only a channel that is known to be direct is: the library knows no server of a channel that it was not told about.
    """
    channel_id = str(getattr(channel, "id", 0))
    server_id = guild.id if guild is not None else getattr(channel, "guild_id", None)
    if server_id is None:
        kind = getattr(channel, "type", None)
        return Place(PLATFORM, None, channel_id, is_direct=kind is discord.ChannelType.private)
    if isinstance(channel, discord.Thread):
        return Place(PLATFORM, str(server_id), str(channel.parent_id), thread=channel_id)
    return Place(PLATFORM, str(server_id), channel_id, thread=thread_id)


def to_interaction_place(interaction: discord.Interaction) -> Place:
    """Return the place of an interaction; only a conversation with the agent alone is direct."""
    place = to_place(interaction.channel, interaction.guild)
    return replace(place, is_direct=place.is_direct and not interaction.context.private_channel)


def from_interaction(
    interaction: discord.Interaction,
    adapter: str,
    content: str = "",
    *,
    reply_to: str | None = None,
    files: Sequence[Attachment] = (),
    earlier: Sequence[QuotedMessage] = (),
) -> IncomingMessage:
    """Return an interaction as an `IncomingMessage`."""
    context = to_platform_context(interaction.user, interaction.channel, interaction.guild, earlier=earlier)
    return IncomingMessage(
        adapter=adapter,
        sender=to_sender(interaction.user),
        place=to_interaction_place(interaction),
        event_id=str(interaction.id),
        content=content,
        sent_at=interaction.created_at,
        attachments=tuple(files),
        platform_message_id=reply_to,
        platform_context=context,
    )


def to_text(message: discord.Message, me: int) -> str:
    """Return the plain text: names instead of ids, without the mention of the agent."""
    names = {mention.id: mention.display_name for mention in message.mentions}
    mine = "|".join([rf"<@!?{me}>", *(f"<@&{role.id}>" for role in message.role_mentions if _is_own(role, me))])
    content = re.sub(rf"(?:{mine})[ ,:]*", "", message.content)
    stickers = " ".join(f"[sticker: {to_plain_name(sticker.name)}]" for sticker in message.stickers)
    whole = "\n".join(part for part in (content.strip(), stickers) if part)
    return with_names(whole, names, message.guild)


def with_names(text: str, names: dict[int, str], guild: discord.Guild | None) -> str:
    """Return the text with names instead of the ids that it mentions: plain ones, for it counts as the writer's own."""

    def channel(match: re.Match[str]) -> str:
        channel_or_thread = guild.get_channel_or_thread(int(match[1])) if guild else None
        return f"#{to_plain_name(channel_or_thread.name)}" if channel_or_thread else match[0]

    def role(match: re.Match[str]) -> str:
        guild_role = guild.get_role(int(match[1])) if guild else None
        return f"@{to_plain_name(guild_role.name)}" if guild_role else match[0]

    text = USER.sub(
        lambda match: f"@{to_plain_name(names[int(match[1])])}" if int(match[1]) in names else match[0], text
    )
    return EMOJI.sub(r":\1:", ROLE.sub(role, CHANNEL.sub(channel, text)))


def list_attachments(message: discord.Message) -> list[discord.Attachment]:
    """Return the files of a message and of the message that it forwards."""
    return [*message.attachments, *(file for snapshot in message.message_snapshots for file in snapshot.attachments)]


def list_files(message: discord.Message) -> Iterator[Attachment]:
    """Yield the files of a message; what was forwarded is not the sender's own voice or word."""
    for attachment in list_attachments(message):
        file = to_attachment(attachment)
        yield file if attachment in message.attachments else replace(file, voice_seconds=None, author="stranger")


def to_attachment(attachment: discord.Attachment) -> Attachment:
    """Return a file of a message; the worker downloads it."""
    file = to_file(attachment.filename, attachment.content_type, attachment.size, url=attachment.url)
    return replace(file, voice_seconds=attachment.duration) if attachment.is_voice_message() else file


def to_platform_context(
    author: discord.User | discord.Member,
    channel: object,
    guild: discord.Guild | None,
    earlier: Sequence[QuotedMessage] = (),
) -> PlatformContext:
    """Return the context of a message: roles, topic, thread title, earlier messages."""
    if guild is None:
        return PlatformContext(earlier=tuple(earlier))
    roles = [role for role in author.roles if not role.is_default()] if isinstance(author, discord.Member) else None
    thread = channel if isinstance(channel, discord.Thread) else None
    parent = thread.parent if thread is not None else channel
    return to_context(
        [role.name for role in reversed(roles or ())],
        None if roles is None else [str(role.id) for role in roles],
        earlier=earlier,
        server_name=guild.name,
        channel_name=getattr(parent, "name", None),
        topic=getattr(parent, "topic", None),
        thread_title=thread and thread.name,
    )


def to_forwarded(message: discord.Message) -> list[QuotedMessage]:
    """Return the forwarded message, whose author Discord does not name, and what is shown below the text."""
    quotes = []
    for snapshot in message.message_snapshots:
        text = with_names(snapshot.content, {}, message.guild)
        parts = (clean(text), render_cards(read_embeds(snapshot.embeds), text))
        quotes.append(QuotedMessage("forwarded message", "\n".join(filter(None, parts)), str(message.id)))
    if message.embeds or message.poll is not None:
        cards = render_cards(read_cards(message), message.content)
        quotes.append(QuotedMessage("shown below", cards, str(message.id)))
    return [part for part in quotes if part.text]


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


def to_quoted_message(message: discord.Message, me: int) -> QuotedMessage:
    """Return an earlier message for the context; its text is empty if it shows nothing."""
    return quote(
        message.author.display_name,
        to_text(message, me),
        files=[attachment.filename for attachment in list_attachments(message)],
        below=to_forwarded(message),
        message_id=str(message.id),
        author_id=str(message.author.id),
    )


def is_written_by_a_person(message: discord.Message) -> bool:
    """Return whether a person wrote this, and not a bot, a webhook or Discord itself."""
    return not message.author.bot and message.webhook_id is None and message.type in WRITTEN_BY_PEOPLE


def mentions_agent(message: discord.Message, me: int) -> bool:
    """Return whether a message mentions the agent or its role, or replies to the agent."""
    if any(mention.id == me for mention in message.mentions):
        return True
    if any(_is_own(role, me) for role in message.role_mentions):
        return True
    resolved = message.reference.resolved if message.reference else None
    return isinstance(resolved, discord.Message) and resolved.author.id == me


def to_addressing(message: discord.Message, me: int) -> Addressing:
    """Return to whom a message is addressed."""
    author = message.author.id
    # The library resolves only the roles that it knows.
    others = {mention.id for mention in message.mentions} | set(message.raw_role_mentions)
    resolved = message.reference.resolved if message.reference else None
    if find_replied_to(message) is not None and isinstance(resolved, discord.Message):
        others.add(resolved.author.id)
    return Addressing(
        place=str(message.channel.id),
        # Ids of different lengths compare as text only with leading zeros.
        message=f"{message.id:020}",
        author=str(author),
        sent_at=message.created_at,
        calls_agent=mentions_agent(message, me),
        others=frozenset(str(other) for other in others - {author, me}),
    )


def _is_own(role: discord.Role, me: int) -> bool:
    # The role that Discord creates for the bot; people choose it by mistake when they mention the bot.
    return role.tags is not None and role.tags.bot_id == me
