"""The person's side: messages, edits, deletions and clicks in Discord's client, and what it shows."""

from collections.abc import Sequence
from copy import copy
from typing import Any

from tests.standins.discord.interactions import Interaction
from tests.standins.discord.server import DiscordStandIn
from tests.standins.discord.world import DM, EPHEMERAL, LOADING, Json, now, snowflake

SLASH, COMPONENT, FORM = 2, 3, 5
TEXT_INPUT, USER_LIST, CHANNEL_LIST = 4, 5, 8
GUILD, BOT_DM, PRIVATE_CHANNEL = 0, 1, 2
CHAT_INPUT, USER_MENU, MESSAGE_MENU = 1, 2, 3


class Person:
    def __init__(self, standin: DiscordStandIn, name: str, *, bot: bool = False) -> None:
        self.standin, self.name = standin, name
        self.user = standin.world.add_person(name, bot=bot)

    @property
    def id(self) -> str:
        return str(self.user["id"])

    def towards(self, bot: DiscordStandIn) -> "Person":
        """Return the same person, who talks to another bot."""
        person = copy(self)
        person.standin = bot
        return person

    def joins(self, guild: Json, nick: str | None = None, roles: Sequence[Json] = ()) -> None:
        """Become a member of a server."""
        member = self.standin.world.join(guild["id"], self.user, nick)
        member["roles"] = [role["id"] for role in roles]

    def dm(self) -> Json:
        """Return the direct conversation with the bot."""
        return self.standin.world.add_private(self.user)

    async def says(
        self,
        content: str,
        channel: Json,
        *,
        reply_to: Json | None = None,
        files: Sequence[tuple[str, bytes, str]] = (),
        is_heard: bool = True,
        **fields: Any,
    ) -> Json:
        """Write a message; with `is_heard` False no event is sent, as if nobody were connected."""
        world = self.standin.world
        attachments = self.standin.keep_files(channel["id"], [("", name, content) for name, content, _ in files])
        for attachment, (_, _, kind) in zip(attachments, files, strict=True):
            attachment["content_type"] = kind
        if reply_to is not None:
            result = {"message_id": reply_to["id"], "channel_id": channel["id"], "guild_id": channel.get("guild_id")}
            fields |= {"type": 19, "message_reference": result, "referenced_message": reply_to}
        message = world.keep_message(channel, self.user, content, attachments=attachments, **fields)
        if reply_to is not None and all(mention["id"] != reply_to["author"]["id"] for mention in message["mentions"]):
            message["mentions"].append(reply_to["author"])
        if is_heard:
            await self.standin.tell_message("MESSAGE_CREATE", message)
        return message

    async def asks(self, content: str, channel: Json, **fields: Any) -> Json:
        """Write a message that mentions the bot."""
        return await self.says(f"<@{self.standin.world.bot['id']}> {content}", channel, **fields)

    async def edits(self, message: Json, content: str) -> None:
        mentions = self.standin.world.mentioned(content)
        message.update(content=content, mentions=mentions, edited_timestamp=now())
        await self.standin.tell_message("MESSAGE_UPDATE", message)

    async def deletes(self, message: Json) -> None:
        await self.standin.forget_message(self.standin.world.channels[message["channel_id"]], message)

    async def clicks(self, message: Json, label: str) -> Interaction:
        """Press the button with this label or emoji."""
        buttons = [button for row in message["components"] for button in row["components"]]
        matches = [button for button in buttons if label in (button.get("label"), button.get("emoji", {}).get("name"))]
        assert matches, f"no button {label!r} among {[button.get('label') for button in buttons]}"
        assert not matches[0].get("disabled"), f"the button {label!r} is disabled"
        chosen = {"custom_id": matches[0]["custom_id"], "component_type": 2}
        return await self.presses(message, chosen)

    async def presses(self, message: Json, chosen: Json) -> Interaction:
        """Send a component's interaction with any content."""
        channel = self.standin.world.channels[message["channel_id"]]
        return await self._interact(COMPONENT, channel, chosen, message=message)

    async def types(
        self, name: str, channel: Json, /, *, attached: tuple[str, bytes] | None = None, **options: str
    ) -> Interaction:
        """Run a slash command; a key `sub` names its subcommand, `attached` is the value of its option `file`."""
        command = next((command for command in self.standin.commands if command["name"] == name), None)
        assert command is not None, f"there is no command /{name}"
        sub = options.pop("sub", None)
        files = self.standin.keep_files(channel["id"], [("", *attached)] if attached is not None else [])
        options |= {"file": files[0]["id"]} if files else {}
        option_types = {option["name"]: option for option in command.get("options", [])}
        if sub is not None:
            option_types = {option["name"]: option for option in option_types[sub].get("options", [])}
        assert set(options) <= set(option_types), f"/{name} has no option {set(options) - set(option_types)}"
        values = [{"name": key, "type": option_types[key]["type"], "value": value} for key, value in options.items()]
        if sub is not None:
            values = [{"name": sub, "type": 1, "options": values}]
        invocation: Json = {"id": command["id"], "name": name, "type": CHAT_INPUT, "options": values}
        invocation |= {"resolved": {"attachments": {file["id"]: file for file in files}}} if files else {}
        return await self._interact(SLASH, channel, invocation)

    async def picks(self, menu: str, message: Json) -> Interaction:
        """Choose an entry of a message's context menu."""
        entry = next((command for command in self.standin.commands if command["name"] == menu), None)
        assert entry is not None, f"there is no menu entry {menu!r}"
        invocation = {
            "id": entry["id"],
            "name": menu,
            "type": MESSAGE_MENU,
            "target_id": message["id"],
            "resolved": {"messages": {message["id"]: message}},
        }
        return await self._interact(SLASH, self.standin.world.channels[message["channel_id"]], invocation)

    async def fills(self, interaction: Interaction, **fields: str) -> Interaction:
        """Send the form that an interaction has opened; fields that are not named keep what they begin with."""
        for label in interaction.form["components"]:
            component = label["component"]
            value = fields.get(component["custom_id"]) or component.get("value") or _begins_with(component)
            assert value or not component.get("required", True), f"{component['custom_id']} must be filled in"
            allowed = [option["value"] for option in component.get("options", ())]
            values = [value] if isinstance(value, str) else value
            assert not allowed or set(values) <= set(allowed), f"it is one of {allowed}"
        return await self.forges(interaction, **fields)

    async def forges(self, interaction: Interaction, **fields: str) -> Interaction:
        """Send a form as a program could, whatever it allows."""
        form = interaction.form
        components = {label["component"]["custom_id"]: label["component"] for label in form["components"]}
        assert set(fields) <= set(components), f"there is no field {set(fields) - set(components)}"
        channel = self.standin.world.channels[interaction.payload["channel_id"]]
        rows: list[Json] = []
        resolved: Json = {}
        for name, component in components.items():
            answer: Json = {key: component[key] for key in ("type", "custom_id")}
            if component["type"] == TEXT_INPUT:
                answer["value"] = fields.get(name, component.get("value", ""))
            else:
                answer["values"] = [fields[name]] if name in fields else _begins_with(component)
                self._resolve(component, answer["values"], channel, resolved)
            rows.append({"type": 18, "component": answer})
        sent = {"custom_id": form["custom_id"], "components": rows, "resolved": resolved}
        return await self._interact(FORM, channel, sent)

    def _resolve(self, component: Json, values: Sequence[str], channel: Json, resolved: Json) -> None:
        """Add what Discord tells about the people and channels that were chosen: members of the server, or nothing."""
        world, guild_id = self.standin.world, str(channel.get("guild_id"))
        for value in values:
            if component["type"] == USER_LIST and (guild_id, value) in world.members:
                resolved.setdefault("members", {})[value] = world.member(guild_id, value) | {"permissions": "0"}
                resolved.setdefault("users", {})[value] = world.people[value]
            elif component["type"] == CHANNEL_LIST and world.channels.get(value, {}).get("guild_id") == guild_id:
                resolved.setdefault("channels", {})[value] = world.channels[value] | {"permissions": "0"}

    async def _interact(self, kind: int, channel: Json, invocation: Json, **fields: Any) -> Interaction:
        world = self.standin.world
        guild_id = channel.get("guild_id")
        payload: Json = {
            "id": snowflake(),
            "application_id": world.bot["id"],
            "type": kind,
            "data": invocation,
            "channel_id": channel["id"],
            "channel": channel,
            "version": 1,
            "locale": "en-US",
            "entitlements": [],
            "context": GUILD if guild_id is not None else _context_of(channel),
            "authorizing_integration_owners": {},
            "attachment_size_limit": 10 * 1024 * 1024,
            "app_permissions": "0",
            **fields,
        }
        if guild_id is None:
            payload["user"] = self.user
        else:
            payload |= {"guild_id": guild_id, "guild": {"id": guild_id}}
            payload["member"] = world.member(guild_id, self.id) | {"permissions": "0"}
        interaction = Interaction(payload)
        payload["token"] = interaction.token
        self.standin.interactions[interaction.token] = interaction
        await self.standin.gateway.dispatch("INTERACTION_CREATE", payload, guild_id)
        return interaction

    def reads(self, channel: Json) -> list[Json]:
        """Return what the bot has written in a channel, as everybody there sees it now."""
        me = self.standin.world.bot["id"]
        messages = self.standin.world.messages.get(channel["id"], {}).values()
        return [
            message
            for message in messages
            if message["author"]["id"] == me and not message["flags"] & (EPHEMERAL | LOADING)
        ]

    async def hears(self, channel: Json, count: int = 1) -> list[str]:
        """Return the bot's texts in a channel as soon as this many are complete."""

        def ended() -> list[str]:
            return [message["content"] for message in self.reads(channel) if not _grows(message)]

        await self.standin.until(lambda: len(ended()) >= count)
        return ended()


def _begins_with(component: Json) -> list[str]:
    chosen = [option["value"] for option in component.get("options", ()) if option.get("default")]
    return chosen or [value["id"] for value in component.get("default_values", ())]


def _context_of(channel: Json) -> int:
    return BOT_DM if channel["type"] == DM else PRIVATE_CHANNEL


def _grows(message: Json) -> bool:
    # An answer with a Stop button is not complete.
    return any(component.get("label") == "Stop" for row in message["components"] for component in row["components"])
