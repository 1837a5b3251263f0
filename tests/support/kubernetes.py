"""A Kubernetes API server over HTTP (kmock), and the operator as a process of its own beside it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import kmock
import yaml

from adapters.kubernetes.manifests import API_VERSION, GROUP, SPECS, VERSION
from shared.db.database import Address
from tests.support.forks import get_command
from tests.support.source_tree import ROOT

NAMESPACE = "chat"
SECONDS = 30


class APIServer(kmock.KubernetesEmulator):
    """An API server that counts the versions of resources, by which clients know whether they see their own changes."""

    async def _handle(self, request: kmock.Request) -> aiohttp.web.StreamResponse:
        # The documented way to what kmock leaves out; it calls this for each request.
        version = str(request.id + 1)
        if isinstance(request.data, list):
            request.data.append({"op": "add", "path": "/metadata/resourceVersion", "value": version})
        elif request.method in {"POST", "PATCH"}:
            request.data.setdefault("metadata", {})["resourceVersion"] = version
        try:
            return await super()._handle(request)
        except AssertionError:
            # A patch is about another version: somebody else was first.
            raise kmock.KubernetesError(status=HTTPStatus.UNPROCESSABLE_ENTITY, reason="Invalid") from None


@dataclass
class Cluster:
    """An API server that knows our resources, with a client as kubectl is one."""

    client: aiohttp.ClientSession

    async def list_events(self) -> list[tuple[str, str]]:
        """Return reason and message of the events of the namespace."""
        async with self.client.get(f"/api/v1/namespaces/{NAMESPACE}/events") as response:
            return [(event["reason"], event["message"]) for event in (await response.json())["items"]]

    async def create(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        """Create a resource."""
        # What an API server adds; this one leaves it to its client.
        metadata = {"name": name, "namespace": NAMESPACE, "uid": name, "generation": 1}
        body = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
        await self._send("POST", self._path(kind), body)

    async def change(self, kind: str, name: str, **changes: Any) -> None:
        """Merge changes into a resource."""
        await self._send("PATCH", self._path(kind, name), changes)

    async def delete(self, kind: str, name: str) -> None:
        """Delete a resource; its finalizers keep it."""
        await self._send("DELETE", self._path(kind, name), None)

    async def until(self, kind: str, name: str, condition: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Watch a resource until it meets the condition, and return it; one that is gone is empty."""
        path = self._path(kind)
        async with asyncio.timeout(SECONDS), self.client.get(path, params={"watch": "true"}) as watch:
            # The watch tells of what is there, but not of what is gone already.
            async with self.client.get(self._path(kind, name)) as response:
                if response.status == HTTPStatus.NOT_FOUND and condition({}):
                    return {}
            async for line in watch.content:
                event = json.loads(line) if line.strip() else {}
                body: dict[str, Any] = event.get("object", {})
                if body.get("metadata", {}).get("name") != name:
                    continue
                body = {} if event["type"] == "DELETED" else body
                if condition(body):
                    return body
        raise AssertionError("the watch ended")

    async def until_state(self, kind: str, name: str, state: str, **fields: Any) -> dict[str, Any]:
        """Watch a resource until its status says so, and return the status."""

        def says_so(body: dict[str, Any]) -> bool:
            status = body.get("status", {})
            return status.get("state") == state and all(status.get(key) == value for key, value in fields.items())

        status: dict[str, Any] = (await self.until(kind, name, says_so))["status"]
        return status

    async def _send(self, method: str, path: str, body: Any) -> None:
        async with self.client.request(method, path, json=body) as response:
            assert response.status < 300, await response.text()

    def _path(self, kind: str, name: str = "") -> str:
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{NAMESPACE}/{SPECS[kind].plural}"
        return f"{path}/{name}" if name else path


@asynccontextmanager
async def operating(address: Address, home: Path) -> AsyncIterator[Cluster]:
    """Start an API server and `parley operator` beside it; both end with the block."""
    async with APIServer() as emulator, kmock.Server(emulator) as server:
        for spec in SPECS.values():
            emulator.resources[f"{GROUP}/{VERSION}/{spec.plural}"] = kmock.ResourceInfo(
                kind=spec.kind_name,
                namespaced=True,
                verbs={"get", "list", "watch", "patch", "create", "delete"},
                subresources={"status"},
            )
        # What each cluster has, and kopf waits for.
        emulator.resources["v1/events"] = kmock.ResourceInfo(kind="Event", namespaced=True, verbs={"create"})
        emulator.resources["v1/namespaces"] = kmock.ResourceInfo(kind="Namespace", namespaced=False, verbs={"list"})
        config = home / "kubeconfig"
        config.write_text(yaml.safe_dump(build_config(str(server.url))), "utf-8")
        with (home / "operator.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(*get_command(), "operator", "--namespace", NAMESPACE, "--interval", "0.2"),
                env={
                    "PATH": "/usr/bin:/bin",
                    "PYTHONPATH": str(ROOT),
                    "PARLEY_HOME": str(home),
                    "DATABASE_URL": address.libpq(as_owner=True),
                    "KUBECONFIG": str(config),
                },
                stdout=log,
                stderr=log,
            )
        try:
            async with aiohttp.ClientSession(base_url=str(server.url)) as client:
                yield Cluster(client)
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


def build_config(url: str) -> dict[str, Any]:
    """Return the configuration of clients of an API server without authentication."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": NAMESPACE}}],
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "users": [{"name": "test", "user": {}}],
    }
