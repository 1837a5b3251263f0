"""How a method of the Web API is declared: typed arguments, scopes, tier; each call is validated."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tests.standins.slack.rules import Refused
from tests.standins.slack.world import Installation, Json

if TYPE_CHECKING:
    from tests.standins.slack.server import SlackStandIn

Kind = type[str] | type[int] | type[bool] | type[list[Any]] | type[dict[str, Any]]
TRUE, FALSE = ("1", "true", "True"), ("0", "false", "False", "")


@dataclass
class Call:
    """One call: the caller and the validated arguments."""

    standin: "SlackStandIn"
    installation: Installation
    args: Json
    token: str = ""

    def channel(self, key: str = "channel") -> Json:
        """Return the named channel, which must be in the app's workspace."""
        channel = self.standin.world.channels.get(self.args[key])
        if channel is None or self.installation.team["id"] not in channel["shared_team_ids"]:
            raise Refused("channel_not_found")
        is_member = self.installation.bot["id"] in self.standin.world.members[channel["id"]]
        if channel["is_private"] and not is_member:
            raise Refused("channel_not_found")
        return channel

    def own_channel(self, key: str = "channel") -> Json:
        """Return the named channel, which the bot must be a member of."""
        channel = self.channel(key)
        if self.installation.bot["id"] not in self.standin.world.members[channel["id"]]:
            raise Refused("not_in_channel")
        return channel

    def message(self, channel: Json, error: str = "message_not_found") -> Json:
        message = self.standin.world.messages[channel["id"]].get(self.args["ts"])
        if message is None:
            raise Refused(error)
        return message


Answer = Callable[[Call], Awaitable[Json]]


@dataclass(frozen=True)
class Method:
    """One method. `scopes` are alternatives, by the channel's type for methods about a channel."""

    name: str
    answer: Answer
    scopes: tuple[str, ...]
    tier: int
    token: Literal["bot", "app", "client"]
    needs: Mapping[str, Kind]
    takes: Mapping[str, Kind]

    def scope_for(self, channel: Json | None) -> str | None:
        """Return the scope that a call needs."""
        if len(self.scopes) < 2 or channel is None:
            return self.scopes[0] if self.scopes else None
        name = "im" if channel["is_im"] else "mpim" if channel["is_mpim"] else "channels"
        if name == "channels" and channel["is_private"]:
            name = "groups"
        return next((scope for scope in self.scopes if scope.startswith(f"{name}:")), self.scopes[0])


METHODS: dict[str, Method] = {}


def method(
    name: str,
    *scopes: str,
    tier: int = 3,
    token: Literal["bot", "app", "client"] = "bot",
    needs: Mapping[str, Kind] | None = None,
    takes: Mapping[str, Kind] | None = None,
) -> Callable[[Answer], Answer]:
    """Register the function of a method."""

    def register(answer: Answer) -> Answer:
        METHODS[name] = Method(name, answer, scopes, tier, token, needs or {}, takes or {})
        return answer

    return register


def per_kind(action: str) -> tuple[str, str, str, str]:
    """Return the scopes of a permission for each type of channel."""
    return (f"channels:{action}", f"groups:{action}", f"im:{action}", f"mpim:{action}")


def read_arguments(method: Method, arguments: Json) -> Json:
    """Return the parsed arguments; missing, unknown and wrongly typed ones are refused."""
    # bolt's clients name the workspace in every call.
    types = {**method.needs, **method.takes, "team_id": str}
    complaints = [f"missing required field: {need}" for need in method.needs if arguments.get(need) in (None, "")]
    complaints += [f"unknown argument: {name}" for name in arguments if name not in types]
    if complaints:
        raise Refused("invalid_arguments", *complaints)
    return {key: _read(key, value, types[key]) for key, value in arguments.items() if value is not None}


def _read(key: str, value: Any, kind: Kind) -> Any:
    wrong = Refused("invalid_arguments", f"must be of type {kind.__name__} [json-pointer:/{key}]")
    if kind is bool and not isinstance(value, bool):
        if str(value) not in TRUE + FALSE:
            raise wrong
        return str(value) in TRUE
    if kind is int and isinstance(value, str):
        if not value.isdecimal():
            raise wrong
        return int(value)
    if kind in (list, dict) and isinstance(value, str):
        value = _decoded(value, wrong)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise wrong
    return value


def _decoded(text: str, wrong: Refused) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise wrong from error
