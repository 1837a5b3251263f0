"""A real homeserver of Matrix, Synapse, and people who use it by plain HTTP."""

import asyncio
import hashlib
import hmac
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import aiohttp
import yaml

from tests.support.source_tree import ROOT

Json = dict[str, Any]
SECRET, DOMAIN = "shared", "matrix.test"
API = "/_matrix/client/v3"
UNLIMITED = {"per_second": 10_000, "burst_count": 10_000}
# How much people see at once of a room: each time another number, as Synapse answers equal requests from a cache.
LIMITS = count(200)


@dataclass
class Person:
    """An account at the homeserver, and what it has seen of its rooms."""

    server: "Homeserver"
    id: str
    token: str
    mark: str = ""
    events: list[Json] = field(default_factory=list)
    invites: set[str] = field(default_factory=set)

    async def call(self, method: str, *path: str, body: Any = None, **query: Any) -> Json:
        """Make a request that has to succeed."""
        status, answer = await self.server.request(method, path, body, token=self.token, query=query)
        assert status == 200, answer
        return answer

    async def makes_room(self, *invited: str, **options: Any) -> str:
        """Make a room and return its id."""
        whole = {"preset": "private_chat", "invite": list(invited)} | options
        return str((await self.call("POST", "createRoom", body=whole))["room_id"])

    async def joins(self, room: str) -> None:
        await self.call("POST", "rooms", room, "join", body={})

    async def says(self, room: str, text: str, **content: Any) -> str:
        """Write a message and return its id."""
        return await self.sends(room, "m.room.message", {"msgtype": "m.text", "body": text, **content})

    async def sends(self, room: str, kind: str, content: Json) -> str:
        sent = await self.call("PUT", "rooms", room, "send", kind, uuid4().hex, body=content)
        return str(sent["event_id"])

    async def edits(self, room: str, event: str, text: str) -> str:
        """Send an edit of a message, whoever wrote it."""
        new = {"msgtype": "m.text", "body": text}
        relation = {"rel_type": "m.replace", "event_id": event}
        return await self.says(room, f"* {text}", **{"m.new_content": new, "m.relates_to": relation})

    async def reacts(self, room: str, event: str, emoji: str) -> None:
        relation = {"rel_type": "m.annotation", "event_id": event, "key": emoji}
        await self.sends(room, "m.reaction", {"m.relates_to": relation})

    async def sees(self, happened: Callable[[], Any], seconds: float = 30) -> Any:
        """Return what `happened` gives once it is true; it is asked again whenever something arrives."""
        async with asyncio.timeout(seconds):
            while not (result := happened()):
                await self.looks(5000)
        return result

    async def looks(self, milliseconds: int = 0) -> None:
        """See what has arrived since, and wait for it so long."""
        query: Json = {"since": self.mark, "timeout": milliseconds} if self.mark else {}
        room = {"timeline": {"limit": next(LIMITS)}, "ephemeral": {"types": []}, "account_data": {"types": []}}
        batch = await self.call("GET", "sync", filter=json.dumps({"room": room}), **query)
        self.mark, rooms = batch["next_batch"], batch.get("rooms", {})
        self.invites |= set(rooms.get("invite", {}))
        for room, part in rooms.get("join", {}).items():
            self.events += [event | {"room_id": room} for event in part["timeline"]["events"]]

    async def forgets(self) -> None:
        """Know nothing of what was said before."""
        since: Json = {"since": self.mark} if self.mark else {}
        # Of no room, which costs the homeserver next to nothing.
        nothing = {"room": {"rooms": [], "timeline": {"limit": next(LIMITS)}}}
        self.mark = (await self.call("GET", "sync", filter=json.dumps(nothing), **since))["next_batch"]
        self.events.clear()
        self.invites.clear()

    def of(self, author: str, room: str, kind: str = "m.room.message") -> list[Json]:
        """Return the events of somebody in a room, without edits."""
        return [
            event
            for event in self.events
            if (event["sender"], event["room_id"], event["type"]) == (author, room, kind)
            and "m.new_content" not in event["content"]
        ]

    def texts(self, author: str, room: str) -> list[str]:
        """Return what somebody's messages in a room say now."""
        edits = {
            event["content"]["m.relates_to"]["event_id"]: event["content"]["m.new_content"]["body"]
            for event in self.events
            if "m.new_content" in event["content"] and event["sender"] == author
        }
        return [edits.get(event["event_id"], event["content"].get("body", "")) for event in self.of(author, room)]

    async def hears(self, author: str, room: str, text: str) -> str:
        """Return the id of the last message of somebody once it says this."""
        await self.sees(lambda: text in self.texts(author, room))
        position = len(self.texts(author, room)) - 1 - self.texts(author, room)[::-1].index(text)
        return str(self.of(author, room)[position]["event_id"])


@dataclass
class Homeserver:
    """A running Synapse."""

    address: str
    session: aiohttp.ClientSession
    admin: Person | None = None

    async def request(
        self, method: str, path: tuple[str, ...], body: Any, *, token: str = "", query: Json | None = None
    ) -> tuple[int, Json]:
        url = "/".join([self.address + API, *(quote(part, safe="") for part in path)])
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return await self._send(method, url, body, headers, query or {})

    async def _send(self, method: str, url: str, body: Any, headers: Json, query: Json) -> tuple[int, Json]:
        content: Json = {"data": body} if isinstance(body, bytes) else {"json": body}
        content["params"] = {key: str(value) for key, value in query.items()}
        async with self.session.request(method, url, headers=headers, **content) as response:
            return response.status, await response.json(content_type=None)

    async def register(self, name: str, *, is_admin: bool = False) -> Person:
        """Register an account by the shared secret."""
        url = f"{self.address}/_synapse/admin/v1/register"
        _, nonce = await self._send("GET", url, None, {}, {})
        text = "\0".join([nonce["nonce"], name, "password", "admin" if is_admin else "notadmin"])
        mac = hmac.new(SECRET.encode(), text.encode(), hashlib.sha1).hexdigest()
        body = {
            **nonce,
            "username": name,
            "displayname": name.partition("-")[0].title(),
            "password": "password",
            "admin": is_admin,
            "mac": mac,
        }
        status, account = await self._send("POST", url, body, {}, {})
        assert status == 200, account
        return Person(self, account["user_id"], account["access_token"])

    async def upload(self, person: Person, content: bytes, filename: str) -> str:
        """Upload a file and return its address."""
        headers = {"Authorization": f"Bearer {person.token}", "Content-Type": "text/plain"}
        url = f"{self.address}/_matrix/media/v3/upload"
        _, answer = await self._send("POST", url, content, headers, {"filename": filename})
        return str(answer["content_uri"])

    async def download(self, person: Person, uri: str) -> bytes:
        """Return what was uploaded."""
        url = f"{self.address}/_matrix/client/v1/media/download/{uri.removeprefix('mxc://')}"
        async with self.session.get(url, headers={"Authorization": f"Bearer {person.token}"}) as response:
            return await response.read()

    async def limit_rate(self, person: Person, per_second: int | None) -> None:
        """Take so many messages of somebody; None: as the configuration says."""
        if self.admin is None:
            self.admin = await self.register("admin", is_admin=True)
        url = f"{self.address}/_synapse/admin/v1/users/{quote(person.id, safe='')}/override_ratelimit"
        limit = {"messages_per_second": per_second, "burst_count": per_second}
        headers = {"Authorization": f"Bearer {self.admin.token}"}
        method = "DELETE" if per_second is None else "POST"
        status, answer = await self._send(method, url, limit if per_second else None, headers, {})
        assert status == 200, answer


def _configure(folder: Path, port: int, **options: Any) -> Path:
    limits = ("message", "login", "joins", "invites", "room_creation", "registration", "media_create")
    rates: Json = {f"rc_{name}": UNLIMITED for name in limits}
    rates |= {"rc_login": {"address": UNLIMITED, "account": UNLIMITED}, "rc_joins": {"local": UNLIMITED}}
    rates |= {"rc_invites": {"per_room": UNLIMITED, "per_user": UNLIMITED, "per_issuer": UNLIMITED}}
    resources = [{"names": ["client", "media"], "compress": False}]
    configuration = {
        "server_name": DOMAIN,
        "listeners": [{"port": port, "type": "http", "bind_addresses": ["127.0.0.1"], "resources": resources}],
        "database": {"name": "sqlite3", "args": {"database": str(folder / "homeserver.db")}},
        "media_store_path": str(folder / "media"),
        "signing_key_path": str(folder / "signing.key"),
        "registration_shared_secret": SECRET,
        "macaroon_secret_key": "macaroon",
        "form_secret": "form",
        "report_stats": False,
        "trusted_key_servers": [],
        "presence": {"enabled": False},
        "bcrypt_rounds": 4,
    }
    (folder / "signing.key").write_text("ed25519 a_test dFZFvTPD5YtiXuzuHJ+GD1EnBhLxKHtSdb2vtSPOQGc\n")
    path = folder / "homeserver.yaml"
    path.write_text(yaml.safe_dump(configuration | rates | options))
    return path


@asynccontextmanager
async def running_synapse(folder: Path, **options: Any) -> AsyncIterator[Homeserver]:
    """Run a homeserver in this folder for the block."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    path = _configure(folder, port, **options)
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            str(ROOT / ".venv/synapse/bin/python"),
            *("-m", "synapse.app.homeserver", "-c", str(path)),
            cwd=folder,
            stdout=log,
            stderr=log,
            env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        )
    try:
        async with aiohttp.ClientSession() as session:
            homeserver = Homeserver(f"http://127.0.0.1:{port}", session)
            await _until_open(homeserver, process, folder / "log")
            yield homeserver
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _until_open(homeserver: Homeserver, process: asyncio.subprocess.Process, log: Path) -> None:
    async with asyncio.timeout(60):
        while True:
            assert process.returncode is None, f"Synapse has ended, see {log}"
            try:
                await homeserver.session.get(f"{homeserver.address}/_matrix/client/versions")
                return
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)
