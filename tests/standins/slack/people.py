"""The person's side: messages, edits, deletions, clicks and views in Slack's client, and what it shows."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from tests.standins.slack import files as uploads
from tests.standins.slack.interactions import Interaction
from tests.standins.slack.server import SlackStandIn
from tests.standins.slack.show import show
from tests.standins.slack.world import Json, stamp

File = tuple[str, bytes] | tuple[str, bytes, str]


class Person:
    """A person with an account; `is_restricted=True` and the like make a guest, another `team` an external person."""

    def __init__(self, slack: SlackStandIn, name: str, *, team: Json | None = None, **fields: Any) -> None:
        self.slack, self.name = slack, name
        self.team = team or slack.installation.team
        self.user = slack.world.add_user(name, self.team, **fields)

    @property
    def id(self) -> str:
        return str(self.user["id"])

    @property
    def dm(self) -> Json:
        """Return the direct conversation with the bot."""
        return self.slack.world.add_direct(self.user, self._home_team())

    def _home_team(self) -> Json:
        """Return the workspace whose bot this person sees: their own, or for external people the first."""
        has_bot = self.slack.world.installation_of(self.team["id"]) is not None
        return self.team if has_bot else self.slack.installation.team

    def joins(self, *channels: Json) -> None:
        for channel in channels:
            self.slack.world.members[channel["id"]].add(self.id)

    async def posts(
        self,
        channel: Json,
        text: str,
        *,
        thread_ts: str | None = None,
        files: Sequence[File] = (),
        is_heard: bool = True,
        **fields: Any,
    ) -> Json:
        """Write a message; with `is_heard` False the app gets no event, as if it were down for long."""
        self.joins(channel)
        records = [uploads.keep_file(self.slack, self.team["id"], self.id, *file) for file in files]
        fields |= {"user": self.id, "team": self.team["id"], "client_msg_id": str(uuid4())}
        if text:
            fields.setdefault("blocks", [_rich_text(text)])
        if records:
            fields |= {"files": records, "subtype": "file_share", "upload": False}
        if self.team["id"] != channel["context_team_id"]:
            fields |= {"user_team": self.team["id"], "source_team": self.team["id"]}
        if thread_ts is not None:
            fields["thread_ts"] = thread_ts
        message = self.slack.world.keep_message(channel, text, **fields)
        uploads.share(records, channel, message)
        if is_heard:
            await self.slack.events.message(channel, message)
        return message

    async def direct(self, text: str, **fields: Any) -> Json:
        """Write to the bot in the direct conversation."""
        return await self.posts(self.dm, text, **fields)

    async def mentions(self, channel: Json, text: str, **fields: Any) -> Json:
        """Write a message that mentions the bot."""
        installation = self.slack.world.installation_of(channel["context_team_id"])
        assert installation is not None, "the app is not installed there"
        return await self.posts(channel, f"<@{installation.bot['id']}> {text}", **fields)

    async def edits(self, channel: Json, message: Json | str, text: str) -> None:
        original = self._message(channel, message)
        await self.slack.change(channel, original, {"text": text, "blocks": [_rich_text(text)]}, edited_by=self.id)

    async def deletes(self, channel: Json, message: Json | str) -> None:
        await self.slack.forget(channel, self._message(channel, message))

    def _message(self, channel: Json, message: Json | str) -> Json:
        ts = message if isinstance(message, str) else message["ts"]
        return self.slack.world.messages[channel["id"]][ts]

    async def presses(self, channel: Json, message: Json, button: str, **fields: Any) -> Interaction:
        """Press a button of a message, ephemeral or not, found by its text or its `action_id`."""
        is_ephemeral = "for" in message
        message = message if is_ephemeral else self._message(channel, message)
        where = {"type": "message", "message_ts": message["ts"], "channel_id": channel["id"]}
        where |= {"is_ephemeral": is_ephemeral}
        if message.get("thread_ts"):
            where["thread_ts"] = message["thread_ts"]
        payload = self._block_action(_find_element(message.get("blocks", []), button), fields)
        payload |= {"container": where, "channel": {"id": channel["id"], "name": channel.get("name", "directmessage")}}
        payload |= {"message": {key: value for key, value in message.items() if key != "for"}}
        interaction = Interaction(self.slack, payload, self.user, channel, message)
        return await self.slack.interactions.begin("interactive", interaction)

    async def presses_in_view(self, view: Json, button: str, **fields: Any) -> Interaction:
        """Press a button of the home tab or of a modal."""
        payload = self._block_action(_find_element(view["blocks"], button), fields)
        payload |= {"container": {"type": "view", "view_id": view["id"]}, "view": self._shown_view(view)}
        interaction = Interaction(self.slack, payload, self.user)
        return await self.slack.interactions.begin("interactive", interaction, responds=False)

    def _block_action(self, place: tuple[Json, Json], fields: Json) -> Json:
        block, element = place
        action: Json = {key: element[key] for key in ("action_id", "type", "text", "value", "style") if key in element}
        action |= {"block_id": block.get("block_id", ""), "action_ts": stamp(), **fields}
        return self._base("block_actions") | {"actions": [action], "state": {"values": {}}}

    def _base(self, kind: str) -> Json:
        team = self._home_team()
        user = {"id": self.id, "username": self.user["name"], "name": self.user["name"], "team_id": self.team["id"]}
        result = {"type": kind, "user": user, "team": {"id": team["id"], "domain": team["domain"]}, "token": "x"}
        return result | {"api_app_id": self.slack.world.app_id, "enterprise": None, "is_enterprise_install": False}

    async def slash(self, channel: Json, command: str, text: str = "") -> Interaction:
        """Run a slash command; Slack has none in threads."""
        assert self.slack.commands is None or command in self.slack.commands, f"{command} is not a valid command."
        self.slack.used_scopes.add("commands")
        team = self._home_team()
        payload: Json = {
            "token": "x",
            "team_id": team["id"],
            "team_domain": team["domain"],
            "channel_id": channel["id"],
            "channel_name": channel.get("name", "directmessage"),
            "user_id": self.id,
            "user_name": self.user["name"],
            "command": command,
            "text": text,
            "api_app_id": self.slack.world.app_id,
            "is_enterprise_install": "false",
        }
        interaction = Interaction(self.slack, payload, self.user, channel)
        return await self.slack.interactions.begin("slash_commands", interaction)

    async def shortcut(self, channel: Json, message: Json, callback_id: str) -> Interaction:
        """Choose a shortcut of the app from a message's menu."""
        shortcuts = self.slack.shortcuts
        assert shortcuts is None or callback_id in shortcuts, f"there is no shortcut {callback_id!r} among {shortcuts}"
        self.slack.used_scopes.add("commands")
        payload = self._base("message_action") | {"callback_id": callback_id, "action_ts": stamp()}
        payload |= {"message": message, "message_ts": message["ts"]}
        payload |= {"channel": {"id": channel["id"], "name": channel.get("name", "directmessage")}}
        interaction = Interaction(self.slack, payload, self.user, channel, message)
        return await self.slack.interactions.begin("interactive", interaction)

    async def submits(self, view: Json, **values: Any) -> Interaction:
        """Submit a modal; values are keyed by the `action_id` of their input."""
        filled = view | {"state": {"values": _filled(view, values)}}
        payload = self._base("view_submission") | {"view": self._shown_view(filled), "response_urls": []}
        interaction = Interaction(self.slack, payload, self.user)
        return await self.slack.interactions.begin("interactive", interaction, responds=False)

    def _shown_view(self, view: Json) -> Json:
        return {key: value for key, value in view.items() if key != "for"}

    async def opens_home(self, tab: str = "home") -> None:
        """Open the app's home tab."""
        event: Json = {"user": self.id, "channel": self.dm["id"], "tab": tab}
        if self.slack.events.shows_context:
            event["context"] = {}
        if self.home is not None and tab == "home":
            event["view"] = self._shown_view(self.home)
        await self.slack.events.in_team("app_home_opened", event, self._home_team()["id"])

    @property
    def home(self) -> Json | None:
        """Return the home tab that the app has published for this person."""
        return self.slack.world.homes.get(self.id)

    async def opens_assistant(self, beside: Json | None = None) -> str:
        """Open a new thread in the assistant's panel, beside a channel; return its `thread_ts`."""
        dm, world = self.dm, self.slack.world
        installation = world.installation_of(dm["context_team_id"])
        assert installation is not None
        root = world.keep_message(
            dm, "New Assistant Thread", user=installation.bot["id"], subtype="assistant_app_thread"
        )
        root["thread_ts"] = root["ts"]
        key = (dm["id"], root["ts"])
        world.assistant_threads[key] = {"title": "", "status": "", "statuses": [], "prompts": []}
        await self._assistant_event("assistant_thread_started", root["ts"], beside)
        return str(root["ts"])

    async def _assistant_event(self, name: str, thread_ts: str, beside: Json | None) -> None:
        team_id = self._home_team()["id"]
        context = {"channel_id": beside["id"], "team_id": team_id, "enterprise_id": None} if beside else {}
        thread = {"user_id": self.id, "context": context, "channel_id": self.dm["id"], "thread_ts": thread_ts}
        await self.slack.events.in_team(name, {"assistant_thread": thread}, team_id)

    async def switches_to(self, beside: Json) -> None:
        """Look at another channel with the agent open beside it."""
        entity = {"type": "slack#/types/channel_id", "value": beside["id"], "team_id": self.team["id"]}
        await self.slack.events.in_team("app_context_changed", {"context": {"entities": [entity]}}, self.team["id"])

    async def stops_session(self, channel: Json, thread_ts: str) -> None:
        """Click the native stop button of a thread in which the agent is processing: Slack ends its streams."""
        session = self.slack.world.sessions[channel["id"], thread_ts]
        assert session["status"] == "processing", "there is no stop button"
        assert "agent_session_stopped" in self.slack.events.subscriptions, "the app has no stop button"
        messages = self.slack.world.messages[channel["id"]].values()
        streams = [
            message for message in messages if message.get("thread_ts") == thread_ts and message.get("is_streaming")
        ]
        for stream in streams:
            stream["is_streaming"] = False
        event = {"channel": channel["id"], "thread_ts": thread_ts, "user": self.id}
        event |= {"streaming_message_ts": [stream["ts"] for stream in streams]}
        await self.slack.events.in_team("agent_session_stopped", event, self._home_team()["id"])

    def reads(self, channel: Json | None = None, thread_ts: str | None = None) -> list[str]:
        """Return the visible text of the bot's finished messages in a channel or thread."""
        return [show(self.slack.world, message) for message in self.written(channel, thread_ts)]

    def written(self, channel: Json | None = None, thread_ts: str | None = None) -> list[Json]:
        """Return the bot's finished messages in a channel, or in one of its threads."""
        key = (channel or self.dm)["id"]
        messages = [message for message in self.slack.world.messages[key].values() if "bot_id" in message]
        in_thread = [message for message in messages if thread_ts in (None, message.get("thread_ts"))]
        return [message for message in in_thread if not message.get("is_streaming")]

    async def hears(self, channel: Json | None = None, count: int = 1, *, thread_ts: str | None = None) -> list[str]:
        """Return the bot's messages in a channel as soon as there are this many."""
        await self.slack.until(lambda: len(self.written(channel, thread_ts)) >= count)
        return self.reads(channel, thread_ts)

    def whispers(self, channel: Json | None = None) -> list[Json]:
        """Return the ephemeral messages for this person, in a channel or anywhere."""
        mine = [ephemeral for ephemeral in self.slack.world.ephemerals if ephemeral["for"] == self.id]
        return [ephemeral for ephemeral in mine if channel is None or ephemeral["channel"] == channel["id"]]


def _rich_text(text: str) -> Json:
    element = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
    return {"type": "rich_text", "block_id": uuid4().hex[:5], "elements": [element]}


def _find_element(blocks: Sequence[Json], name: str) -> tuple[Json, Json]:
    """Return block and element of a button, by its `action_id` or its text."""
    labels: list[str] = []
    for block in blocks:
        elements = [*block.get("elements", ()), *([block["accessory"]] if "accessory" in block else ())]
        for element in elements:
            text = element.get("text", {})
            names = (element.get("action_id"), text.get("text") if isinstance(text, dict) else None)
            if name in names:
                return block, element
            labels += [name for name in names if name]
    raise AssertionError(f"there is no {name!r} among {labels}")


# What each kind of field begins with, and what was chosen in it.
FIELDS = {
    "static_select": ("initial_option", "selected_option"),
    "users_select": ("initial_user", "selected_user"),
    "conversations_select": ("initial_conversation", "selected_conversation"),
}


def _filled(view: Json, values: Json) -> Json:
    """Return a modal's state with these values."""
    state: Json = {}
    for block in view["blocks"]:
        element = block.get("element") or block.get("accessory") or {}
        action_id = str(element.get("action_id"))
        if block["type"] != "input" and action_id not in values:
            continue
        initial, field = FIELDS.get(str(element.get("type")), ("initial_value", "value"))
        value = values.get(action_id, element.get(initial))
        if block["type"] == "input" and not block.get("optional"):
            assert value is not None, f"{action_id!r} must be filled in"
        if element.get("type") == "static_select" and isinstance(value, str):
            options = [option for option in element["options"] if option["value"] == value]
            # One that the list does not have, as a program could send it.
            value = options[0] if options else {"text": {"type": "plain_text", "text": value}, "value": value}
        state[block["block_id"]] = {action_id: {"type": element.get("type"), field: value}}
    return state
