"""`files.*`, and the upload and download URLs."""

import mimetypes
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4

from aiohttp import web

from tests.standins.slack.api import Call, method
from tests.standins.slack.chat import by_bot, check_thread
from tests.standins.slack.rules import Refused
from tests.standins.slack.world import Json, new_id

if TYPE_CHECKING:
    from tests.standins.slack.server import SlackStandIn

SIGN_IN_PAGE = "<!DOCTYPE html><html><body>Sign in to Parley</body></html>"


def keep_file(standin: "SlackStandIn", team_id: str, user_id: str, name: str, content: bytes, kind: str = "") -> Json:
    """Store a file that a person in a workspace uploaded."""
    file_id = new_id("F")
    address = f"{standin.base}/files-pri/{team_id}-{file_id}"
    file: Json = {
        "id": file_id,
        "created": int(time.time()),
        "name": name,
        "title": name,
        "mimetype": kind or mimetypes.guess_type(name)[0] or "application/octet-stream",
        "filetype": name.rpartition(".")[2],
        "user": user_id,
        "user_team": team_id,
        "size": len(content),
        "mode": "hosted",
        "is_external": False,
        "is_public": False,
        "url_private": f"{address}/{name}",
        "url_private_download": f"{address}/download/{name}",
        "file_access": "visible",
        "shares": {},
    }
    standin.world.files[file_id], standin.world.contents[file_id] = file, content
    return file


@method(
    "files.getUploadURLExternal",
    "files:write",
    tier=4,
    needs={"filename": str, "length": int},
    takes={"alt_txt": str, "snippet_type": str},
)
async def get_upload_url(call: Call) -> Json:
    file = keep_file(
        call.standin, call.installation.team["id"], call.installation.bot["id"], call.args["filename"], b""
    )
    file |= {"size": call.args["length"], "ticket": uuid4().hex, "alt_txt": call.args.get("alt_txt", "")}
    del call.standin.world.contents[file["id"]]
    return {"file_id": file["id"], "upload_url": f"{call.standin.base}/upload/v1/{file['ticket']}"}


async def take_upload(standin: "SlackStandIn", request: web.BaseRequest) -> web.Response:
    """Accept the content of an announced file."""
    ticket = request.path.rpartition("/")[2]
    file = next((file for file in standin.world.files.values() if file.get("ticket") == ticket), None)
    content = await request.content.read()
    if file is None or file["id"] in standin.world.contents:
        return web.Response(status=404, text="not found")
    if len(content) != file["size"]:
        return web.Response(status=400, text="the length is not the one that was announced")
    standin.world.contents[file["id"]] = content
    return web.Response(text=f"OK - {len(content)}")


@method(
    "files.completeUploadExternal",
    "files:write",
    tier=4,
    needs={"files": list},
    takes={"channel_id": str, "channels": str, "thread_ts": str, "initial_comment": str, "blocks": list},
)
async def complete_upload(call: Call) -> Json:
    files = [_uploaded(call, entry) for entry in call.args["files"]]
    targets = [
        channel_id
        for channel_id in (call.args.get("channel_id"), *call.args.get("channels", "").split(","))
        if channel_id
    ]
    for target in targets:
        call.args["channel"] = target
        channel = call.own_channel()
        if channel["is_archived"]:
            raise Refused("is_archived")
        check_thread(call, channel)
        parameters: dict[str, Any] = by_bot(call) | {"subtype": "file_share", "files": files, "upload": True}
        if call.args.get("thread_ts"):
            parameters["thread_ts"] = call.args["thread_ts"]
        message = call.standin.world.keep_message(channel, call.args.get("initial_comment", ""), **parameters)
        share(files, channel, message)
        await call.standin.events.message(channel, message)
    return {"files": files}


def share(files: list[Json], channel: Json, message: Json) -> None:
    """Record in the files where they were shared."""
    for file in files:
        visibility = "private" if channel["is_private"] else "public"
        reference = {"ts": message["ts"], "thread_ts": message.get("thread_ts")}
        file["shares"].setdefault(visibility, {}).setdefault(channel["id"], []).append(reference)


def _uploaded(call: Call, entry: Json) -> Json:
    file = call.standin.world.files.get(entry.get("id", ""))
    if file is None or file["id"] not in call.standin.world.contents:
        raise Refused("file_not_found")
    if file.pop("ticket", None) is None:
        raise Refused("file_already_completed")
    file["title"] = entry.get("title") or file["name"]
    return file


@method(
    "files.info",
    "files:read",
    tier=4,
    needs={"file": str},
    takes={"cursor": str, "limit": int, "page": int, "count": int},
)
async def show_file(call: Call) -> Json:
    file = call.standin.world.files.get(call.args["file"])
    if file is None:
        raise Refused("file_not_found")
    return {"file": file | {"file_access": "visible"}}


def give_content(standin: "SlackStandIn", request: web.BaseRequest) -> web.Response:
    """Return a file's content for a token of its workspace, and otherwise the sign-in page."""
    team_id, _, file_id = unquote(request.path).split("/")[2].partition("-")
    installation = standin.world.installations.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
    content = standin.world.contents.get(file_id)
    if content is None:
        return web.Response(status=404)
    if installation is None or installation.error is not None or "files:read" not in installation.scopes:
        return web.Response(text=SIGN_IN_PAGE, content_type="text/html")
    if installation.team["id"] != team_id:
        return web.Response(text=SIGN_IN_PAGE, content_type="text/html")
    standin.used_scopes.add("files:read")
    return web.Response(body=content, content_type=standin.world.files[file_id]["mimetype"])
