"""`auth.*`, `oauth.*`, `apps.*`, `users.*`, `usergroups.*`, `team.*`, `bots.*`."""

from base64 import b64decode
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from uuid import uuid4

from aiohttp import web

from tests.standins.slack.api import Call, method
from tests.standins.slack.rules import Refused
from tests.standins.slack.world import Json

if TYPE_CHECKING:
    from tests.standins.slack.server import SlackStandIn


@method("auth.test", tier=0)
async def test_token(call: Call) -> Json:
    team, bot = call.installation.team, call.installation.bot
    result = {"url": team["url"], "team": team["name"], "user": bot["name"], "team_id": team["id"]}
    return result | {"user_id": bot["id"], "bot_id": call.installation.bot_id, "is_enterprise_install": False}


@method("auth.revoke", takes={"test": bool})
async def revoke(call: Call) -> Json:
    if not call.args.get("test"):
        call.installation.error = "token_revoked"
    return {"revoked": not call.args.get("test")}


@method("apps.connections.open", tier=0, token="app")  # a kind of token, not one
async def open_connection(call: Call) -> Json:
    if not call.standin.socket.is_enabled:
        raise Refused("socket_mode_not_enabled")
    return {"url": call.standin.socket.new_url()}


@method(
    "apps.event.authorizations.list",
    tier=4,
    token="app",
    needs={"event_context": str},
    takes={"cursor": str, "limit": int},
)  # as above
async def list_authorizations(call: Call) -> Json:
    context = call.standin.events.contexts.get(call.args["event_context"])
    if context is None:
        raise Refused("invalid_event_context")
    return {"authorizations": [call.standin.events.authorization(authorization) for authorization in context]}


@method("users.info", "users:read", tier=4, needs={"user": str}, takes={"include_locale": bool})
async def show_user(call: Call) -> Json:
    user = call.standin.world.users.get(call.args["user"])
    if user is None:
        raise Refused("user_not_found")
    profile = dict(user["profile"])
    if "users:read.email" not in call.installation.scopes:
        profile.pop("email", None)
    result = user | {"profile": profile}
    if not call.args.get("include_locale"):
        result.pop("locale")
    return {"user": result | {"is_stranger": user["is_stranger"] or user["team_id"] != call.installation.team["id"]}}


@method(
    "usergroups.list",
    "usergroups:read",
    tier=2,
    takes={"include_count": bool, "include_disabled": bool, "include_users": bool},
)
async def list_user_groups(call: Call) -> Json:
    mine = [
        user_group
        for user_group in call.standin.world.user_groups.values()
        if user_group["team_id"] == call.installation.team["id"]
    ]
    if not call.args.get("include_disabled"):
        mine = [user_group for user_group in mine if not user_group["date_delete"]]
    left_out = set() if call.args.get("include_users") else {"users"}
    return {
        "usergroups": [{key: value for key, value in user_group.items() if key not in left_out} for user_group in mine]
    }


@method("usergroups.users.list", "usergroups:read", tier=2, needs={"usergroup": str}, takes={"include_disabled": bool})
async def list_members_of_group(call: Call) -> Json:
    group = call.standin.world.user_groups.get(call.args["usergroup"])
    if group is None or group["team_id"] != call.installation.team["id"]:
        raise Refused("no_such_subteam")
    return {"users": group["users"]}


@method("team.info", "team:read", takes={"team": str, "domain": str})
async def show_team(call: Call) -> Json:
    team = call.standin.world.teams.get(call.args.get("team") or call.installation.team["id"])
    if team is None:
        raise Refused("team_not_found")
    return {"team": {"id": team["id"], "name": team["name"], "domain": team["domain"]}}


@method("bots.info", "users:read", takes={"bot": str, "team_id": str})
async def show_bot(call: Call) -> Json:
    for user in call.standin.world.users.values():
        if user["is_bot"] and user["profile"]["bot_id"] == call.args.get("bot"):
            result = {"id": call.args["bot"], "name": user["real_name"], "user_id": user["id"], "deleted": False}
            return {"bot": result | {"app_id": call.standin.world.app_id}}
    raise Refused("bot_not_found")


def ask_to_install(standin: "SlackStandIn", request: web.BaseRequest) -> web.Response:
    """Redirect from the authorization page with a code, or with a refusal."""
    query = request.query
    if query.get("client_id") != standin.client_id or not query.get("scope"):
        return web.Response(status=400, text="This app asks for no scopes, or doesn't exist.")
    if standin.redirect_urls is not None and not query.get("redirect_uri", "").startswith(tuple(standin.redirect_urls)):
        return web.Response(status=400, text="redirect_uri did not match any configured URIs.")
    answer = {"state": query.get("state", "")}
    if standin.approver is None:
        answer["error"] = "access_denied"
    else:
        answer["code"] = uuid4().hex
        standin.codes[answer["code"]] = {"scopes": query["scope"].split(","), "user": standin.approver, **query}
    return web.Response(status=302, headers={"Location": f"{query['redirect_uri']}?{urlencode(answer)}"})


def check_client(standin: "SlackStandIn", request: web.BaseRequest, arguments: Json) -> None:
    """Refuse a wrong client secret, which is in the header or among the arguments."""
    scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
    client_id, secret = arguments.get("client_id"), arguments.get("client_secret")
    if scheme == "Basic":
        client_id, _, secret = b64decode(encoded).decode().partition(":")
    if client_id != standin.client_id:
        raise Refused("invalid_client_id")
    if secret != standin.client_secret:
        raise Refused("bad_client_secret")


@method(
    "oauth.v2.access",
    tier=4,
    token="client",  # a kind of token, not one
    needs={"code": str},
    takes={"redirect_uri": str, "client_id": str, "client_secret": str, "grant_type": str},
)
async def give_token(call: Call) -> Json:
    grant = call.standin.codes.pop(call.args["code"], None)
    if grant is None:
        raise Refused("invalid_code")
    if call.args.get("redirect_uri", grant.get("redirect_uri")) != grant.get("redirect_uri"):
        raise Refused("bad_redirect_uri")
    team = call.standin.world.teams[grant["user"]["team_id"]]
    installed = call.standin.world.install(team, grant["scopes"])
    return {
        "app_id": call.standin.world.app_id,
        "authed_user": {"id": grant["user"]["id"]},
        "scope": ",".join(grant["scopes"]),
        "token_type": "bot",
        "access_token": installed.token,
        "bot_user_id": installed.bot["id"],
        "team": {"id": team["id"], "name": team["name"]},
        "enterprise": None,
        "is_enterprise_install": False,
        **call.standin.install_more,
    }
