"""Delivery to the app: through a socket or a signed request, with retries."""

import asyncio
import hashlib
import hmac
import json
import time
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from uuid import uuid4

from aiohttp import ClientError, ClientSession, ClientTimeout

from tests.standins.slack.journal import Envelope
from tests.standins.slack.world import Json

if TYPE_CHECKING:
    from tests.standins.slack.server import SlackStandIn

ACK_SECONDS = 3.0
RETRY_DELAYS = (0.0, 60.0, 300.0)


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Return the `X-Slack-Signature` of a body."""
    base = b"v0:" + timestamp.encode() + b":" + body
    return "v0=" + hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()


class Delivery:
    """The targets: Socket Mode without addresses; `retry_delays` are the seconds before each retry."""

    def __init__(self, standin: "SlackStandIn") -> None:
        self.standin = standin
        self.addresses: dict[str, str] = {}
        self.ack_seconds = ACK_SECONDS
        self.retry_delays: tuple[float, ...] = RETRY_DELAYS
        self._client: ClientSession | None = None

    async def deliver_to(self, url: str, *, interactions: str = "", commands: str = "") -> None:
        """Send everything to this address over HTTP, once it has answered Slack's challenge."""
        challenge = uuid4().hex
        body = json.dumps({"token": "x", "challenge": challenge, "type": "url_verification"}).encode()
        async with self.client.post(url, data=body, headers=self._headers(body, "application/json")) as response:
            text = await response.text()
            is_right = response.status == 200 and challenge in text
            assert is_right, f"the address didn't answer the challenge: {response.status} {text[:200]}"
        self.addresses = {"events_api": url, "interactive": interactions or url, "slash_commands": commands or url}

    @property
    def client(self) -> ClientSession:
        if self._client is None:
            self._client = ClientSession()
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def give(self, kind: str, payload: Json) -> Envelope:
        """Deliver to the app; events that are not acknowledged in time are retried up to three times."""
        delays = self.retry_delays if kind == "events_api" else ()
        envelope_id, reason = str(uuid4()), ""
        for attempt, delay in enumerate((0.0, *delays)):
            await asyncio.sleep(delay)
            envelope = Envelope(time.monotonic(), kind, payload, attempt, "", envelope_id, reason=reason)
            self.standin.journal.envelopes.append(envelope)
            is_taken = await self._attempt(envelope)
            await self.standin.tell()
            if is_taken:
                break
            reason = envelope.failure
        return envelope

    async def _attempt(self, envelope: Envelope) -> bool:
        if not self.addresses:
            accepts = envelope.kind != "events_api"
            return await self.standin.socket.send(envelope, accepts_response=accepts, seconds=self.ack_seconds)
        return await self._post(envelope)

    async def _post(self, envelope: Envelope) -> bool:
        url = self.addresses[envelope.kind]
        body, kind = _encoded(envelope)
        headers = self._headers(body, kind)
        if envelope.attempt:
            headers |= {"x-slack-retry-num": str(envelope.attempt), "x-slack-retry-reason": envelope.reason}
        envelope.by = f"http {url}"
        try:
            timeout = ClientTimeout(total=self.ack_seconds)
            async with self.client.post(url, data=body, headers=headers, timeout=timeout) as response:
                text, envelope.status = await response.text(), response.status
                no_retry = response.headers.get("X-Slack-No-Retry") == "1"
        except TimeoutError:
            envelope.failure = "http_timeout"
            return False
        except ClientError:
            envelope.failure = "connection_failed"
            return False
        if not 200 <= envelope.status < 300:
            envelope.failure = "http_error"
            return no_retry
        envelope.acked_at = time.monotonic()
        is_json = response.content_type == "application/json"
        envelope.response = json.loads(text) if is_json and text else text or None
        return True

    def _headers(self, body: bytes, kind: str) -> dict[str, str]:
        now = str(int(time.time()))
        signature = sign(self.standin.signing_secret, now, body)
        return {"Content-Type": kind, "X-Slack-Request-Timestamp": now, "X-Slack-Signature": signature}


def _encoded(envelope: Envelope) -> tuple[bytes, str]:
    """Return body and type of a request: events are JSON, interactions a form with JSON in it, commands a form."""
    if envelope.kind == "events_api":
        return json.dumps(envelope.payload).encode(), "application/json"
    parameters = {"payload": json.dumps(envelope.payload)} if envelope.kind == "interactive" else envelope.payload
    return urlencode(parameters).encode(), "application/x-www-form-urlencoded"
