"""The bus beside the database: what goes over it, what its loss costs, and what strangers can do there."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import httpx
import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from adapters.cli.check_database import Installation, check_bus
from adapters.web.app import build_web
from agent.journal.steps import Event
from agent.live.channels import DUE, JOBS, READERS, TURNS
from agent.live.nats_bus import FAILURES, MOST_BYTES, MOST_CHARS, PURPOSE, connect, find_prefix, leave, split
from shared.credentials.vault import Vault
from shared.db.database import Address
from shared.settings import Settings
from tests.bench.children import read_line, running_child
from tests.shared.http.test_egress import make_certificate
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body
from tests.support.chat_scene import child_environment
from tests.support.connections import connected
from tests.support.forks import get_command
from tests.support.nats_server import NatsServer, Stranger, running_nats, strange
from tests.support.parley import Parley, open_parley
from tests.support.relay import Stream, abort

KEY = "shared"
TEXT = "An answer of some length, which comes in several pieces and is read word by word."


@dataclass
class Teller:
    """A model that begins once somebody reads, and ends when it may."""

    is_read: asyncio.Event = field(default_factory=asyncio.Event)
    began: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, _body: Body, _number: int) -> Answer:
        """Return the answer, in pieces."""
        await self.is_read.wait()
        self.began.set()
        return Answer(TEXT, chunk_delay=0.02, end=self.may_end)


@dataclass
class Pair:
    """A door, beside a worker somewhere else, and those who listen at the server and at the database."""

    door: Parley
    server: NatsServer
    stranger: Stranger
    notified: list[str]

    @property
    def prefix(self) -> str:
        """Return how the installation's subjects begin."""
        return find_prefix(self.door.app.database.address, [KEY])

    async def read(self, content: str = "hello") -> list[Event]:
        """Ask, and read the answer to its end."""
        async with asyncio.timeout(60):
            return await self.door.follow(content)


def text_of(events: list[Event]) -> str:
    """Return the text that a reader of these events has seen live."""
    return "".join(str(event.payload["text"]) for event in events if event.name == "text_delta")


async def until(is_so: Callable[[], bool]) -> None:
    """Return when this is so."""
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110  # what is looked at tells nobody
            await asyncio.sleep(0.01)


@pytest.fixture
async def server() -> AsyncIterator[NatsServer]:
    """A server that takes everybody."""
    async with running_nats() as server:
        yield server


@pytest.fixture
def bused(settings: Settings, server: NatsServer) -> Settings:
    """Settings with the bus."""
    return settings.model_copy(update={"bus_url": SecretStr(server.url), "secret_key": SecretStr(KEY)})


@pytest.fixture
async def pair(bused: Settings, address: Address, model: OpenAIStub, server: NatsServer) -> AsyncIterator[Pair]:
    """A door and a worker with a connection each, both on the bus."""
    model.play(lambda _body, _number: Answer(TEXT))
    async with (
        open_parley(bused, address, model) as worker,
        open_parley(bused, address, model, works=False) as door,
        heard(address) as notified,
        strange(server) as stranger,
    ):
        await until(lambda: all(parley.app.events.notifier.bus.is_connected for parley in (door, worker)))
        yield Pair(door, server, stranger, notified)


@asynccontextmanager
async def heard(address: Address) -> AsyncIterator[list[str]]:
    """Listen to NOTIFY; yields the channels of the notes."""
    channels: list[str] = []
    async with connected(address) as listening:

        def note(_connection: asyncpg.Connection, _pid: int, channel: str, _payload: object) -> None:
            channels.append(channel)

        for channel in (TURNS, JOBS):
            await listening.add_listener(channel, note)
        yield channels


async def test_jobs_and_texts_go_over_the_bus_alone_and_nobody_else_reads_them(pair: Pair) -> None:
    await pair.read()
    pair.notified.clear()
    pair.stranger.messages.clear()

    events = await pair.read()

    assert text_of(events) == TEXT
    assert pair.notified == []
    assert {message.subject for message in pair.stranger.messages} == {
        f"{pair.prefix}.{TURNS}",
        f"{pair.prefix}.{JOBS}",
    }
    messages = b"".join(message.data for message in pair.stranger.messages)
    assert b"answer" not in messages
    assert b"inbox" not in messages


async def test_what_strangers_send_shows_nobody_anything_and_stops_nothing(
    pair: Pair, model: OpenAIStub, capsys: pytest.CaptureFixture[str]
) -> None:
    teller = Teller()
    model.play(teller.answer)
    accepted = await pair.door.accept("hello", wants_stream=True)
    deltas = pair.door.app.events.follow(accepted.inbox_id)
    events = [await anext(deltas)]
    teller.is_read.set()
    while not text_of(events):
        events.append(await anext(deltas))
    genuine = [message for message in pair.stranger.messages if message.subject.endswith(TURNS)]
    subject = f"{pair.prefix}.{TURNS}"
    forged = json.dumps(
        [json.dumps({"turn": events[0].turn_id, "inbox": [accepted.inbox_id], "seq": 900, "delta": "x"})]
    )
    await pair.stranger.send(
        subject,
        b"",
        b"\xff\x00garbage",
        b"[" * 100_000,
        b"x" * (MOST_BYTES + 1),
        forged.encode(),
        Vault(["another key"], PURPOSE).encrypt(subject, forged).encode(),
        Vault([KEY], b"another purpose").encrypt(subject, forged).encode(),
        # Of ours, but said for another subject; of ours, said before; of ours, of another shape.
        *(message.data for message in pair.stranger.messages if message.subject.endswith(JOBS)),
        *(message.data for message in genuine),
        *(
            Vault([KEY], PURPOSE).encrypt(subject, text).encode()
            for text in ("{}", "[1]", "[[]]", json.dumps(["{}", "[" * 5000, json.dumps({"inbox": ["a"]})]))
        ),
        # Nor does our own key make a text that is not sealed for this turn.
        Vault([KEY], PURPOSE).encrypt(subject, forged).encode(),
    )
    await pair.stranger.send(f"{pair.prefix}.{JOBS}", b"garbage", b"")
    teller.may_end.set()
    async with asyncio.timeout(60):
        events += [event async for event in deltas]

    assert text_of(events) == TEXT
    assert text_of(await pair.read()) == TEXT
    assert pair.door.app.events.notifier.bus.is_connected
    # The door and the worker say it once for each subject.
    assert capsys.readouterr().out.count("bus_message_refused") <= 4


async def test_a_header_that_the_client_can_not_read_costs_looks_at_the_tables(pair: Pair) -> None:
    pair.door.app.events.read_again_seconds = 0.3
    reader, writer = await asyncio.open_connection("127.0.0.1", pair.server.port)
    await reader.readline()
    writer.write(b'CONNECT {"verbose":false,"headers":true}\r\n')
    for headers in (b"NATS/1.0\r\n:\r\n\r\n", b"NATS/1.0 x\r\n: \xff\r\n\r\n", b"\xff" * 12):
        size = len(headers)
        writer.write(b"HPUB %b.%b %d %d\r\n%b\r\n" % (pair.prefix.encode(), TURNS.encode(), size, size, headers))
    writer.write(b"PING\r\n")
    while (await reader.readline()) not in {b"PONG\r\n", b""}:
        pass

    for _ in range(2):
        events = await pair.read()
        assert [event.payload["content"] for event in events if event.name == "message"] == [TEXT]
    writer.close()


async def test_a_flood_that_nobody_can_read_costs_looks_at_the_tables_and_no_more(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    pair.door.app.events.read_again_seconds = 0.3
    accepted = await pair.door.accept("hello")
    await pair.stranger.send(f"{pair.prefix}.{TURNS}", *[b"x" * 10_000] * 4000)

    async with asyncio.timeout(60):
        assert (await pair.door.app.events.response(accepted.inbox_id)).content == TEXT
        # As long as one of both has not read all of it, answers come by the tables.
        while text_of(await pair.read()) != TEXT:
            pass
    assert capsys.readouterr().out.count("bus_notes_dropped") <= 2


async def test_a_server_that_is_killed_in_the_middle_of_a_stream_costs_what_was_on_its_way(
    bused: Settings, address: Address, model: OpenAIStub, server: NatsServer, tmp_path: Path
) -> None:
    teller = Teller()
    teller.is_read.set()
    model.play(teller.answer)
    env = child_environment(bused, address, tmp_path) | {"SECRET_KEY": KEY, "BUS_URL": server.url}
    log = tmp_path / "log"
    async with (
        open_parley(bused, address, model, works=False) as door,
        heard(address) as notified,
        running_child(*get_command(), "worker", env=env, errors=log) as worker,
    ):
        await read_line(worker, 60)
        pair = Pair(door, server, None, notified)  # type: ignore[arg-type]  # nobody else is there
        reading = asyncio.create_task(pair.read())
        await teller.began.wait()
        await server.kill()
        teller.may_end.set()
        events = await reading
        # The text of the answer is whole, whatever was shown of it before.
        assert [event.payload["content"] for event in events if event.name == "message"] == [TEXT]
        await until(lambda: not door.app.events.notifier.bus.is_connected)
        assert text_of(await pair.read()) == TEXT
        assert set(notified) == {TURNS, JOBS}

        await server.start()
        await until(lambda: bool(door.app.events.notifier.bus.is_connected))
        await until_no_notes(pair)
        assert text_of(await pair.read()) == TEXT


async def test_whoever_asks_for_a_reader_waits_for_no_server_that_hangs(
    pair: Pair, bused: Settings, address: Address, model: OpenAIStub
) -> None:
    teller = Teller()
    model.play(teller.answer)
    accepted = await pair.door.accept("hello", wants_stream=True)
    reading = asyncio.create_task(pair.door.app.events.response(accepted.inbox_id))
    await until(lambda: bool(model.requests))
    notes: list[str] = []
    async with open_parley(bused, address, model, works=False) as asker, connected(address) as listening:
        for channel in (TURNS, READERS):
            await listening.add_listener(channel, lambda *note: notes.append(str(note[2])))
        await until(lambda: bool(asker.app.events.notifier.bus.is_connected))
        with pair.server.hanging():
            asker.app.events.notifier.send(TURNS, json.dumps({"inbox": []}))
            assert await asker.app.events.is_awaited([accepted.inbox_id], 30)
            await until(lambda: TURNS in notes)
    assert notes.index(READERS) < notes.index(TURNS)
    teller.is_read.set()
    teller.may_end.set()
    await reading


async def test_what_is_no_note_of_turns_or_jobs_goes_by_the_database(pair: Pair, address: Address) -> None:
    places: list[str] = []
    async with connected(address) as listening:
        await listening.add_listener(DUE, lambda *note: places.append(str(note[3])))
        pair.door.app.events.notifier.send(DUE, "web::ann/tea:")
        await until(lambda: places == ["web::ann/tea:"])


async def test_a_server_that_hangs_is_left_also_when_it_takes_no_more(pair: Pair) -> None:
    notifier = pair.door.app.events.notifier
    with pair.server.hanging():
        # More than the system keeps for it.
        for number in range(2500):
            notifier.send(TURNS, str(number) + "x" * 7000)
        await until(lambda: len(pair.notified) >= 2500)
        assert not notifier.bus.is_connected
    await until(lambda: bool(notifier.bus.is_connected))
    await until_no_notes(pair)


async def test_a_connection_that_is_still_being_made_is_closed_with_the_process(settings: Settings) -> None:
    accepted: asyncio.Queue[Stream] = asyncio.Queue()
    listener = await asyncio.start_server(lambda *stream: accepted.put_nowait(stream), "127.0.0.1", 0)
    url = SecretStr(f"nats://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    connecting = asyncio.create_task(connect(settings.model_copy(update={"bus_url": url})))
    async with listener, asyncio.timeout(60):
        # It says nothing, so the client waits.
        reader, writer = await accepted.get()
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting

        assert await reader.read() == b""
        await abort([writer])


async def until_no_notes(pair: Pair) -> None:
    """Return when the other process, too, sends nothing by NOTIFY any more."""
    async with asyncio.timeout(60):
        while True:
            pair.notified.clear()
            await pair.read()
            if not pair.notified:
                return


@pytest.mark.parametrize(("login", "is_taken"), [("", False), ("wrong@", False), ("right@", True)])
async def test_without_its_token_the_server_is_not_used_and_everything_goes_by_the_database(
    settings: Settings, address: Address, model: OpenAIStub, login: str, *, is_taken: bool
) -> None:
    model.play(lambda _body, _number: Answer(TEXT))
    async with running_nats('authorization { token: "right" }') as server:
        url = SecretStr(server.url.replace("//", f"//{login}"))
        own = settings.model_copy(update={"bus_url": url, "secret_key": SecretStr(KEY)})
        async with open_parley(own, address, model) as parley:
            bus = parley.app.events.notifier.bus
            if is_taken:
                await until(lambda: bool(bus.is_connected))
            assert (await parley.ask("hello")).content == TEXT
            assert bus.is_connected is is_taken


async def test_with_tls_the_server_shows_a_certificate_that_is_checked(settings: Settings, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "localhost")
    files = f'tls {{ cert_file: "{certificate}", key_file: "{certificate}" }}'
    login = 'authorization { user: "parley", password: "p/w" }'
    async with running_nats(f"{files}\n{login}") as server, running_nats(login) as open_server:
        url = SecretStr(f"tls://parley:p%2Fw@localhost:{server.port}")
        own = settings.model_copy(update={"bus_url": url, "bus_ca_file": certificate})
        client = await connect(own)
        assert client.is_connected
        await leave(client)
        for wrong in (
            {"bus_ca_file": None},
            {"bus_url": SecretStr(f"tls://parley:p%2Fw@127.0.0.1:{server.port}")},
            {"bus_url": SecretStr(f"tls://localhost:{server.port}")},
            {"bus_url": SecretStr(f"tls://parley:p%2Fw@localhost:{open_server.port}")},
        ):
            with pytest.raises(FAILURES):
                await connect(own.model_copy(update=wrong))
        with pytest.raises(ConnectionError, match="speaks no TLS"):
            await connect(own.model_copy(update=wrong))


async def test_doctor_and_a_metric_say_whether_the_server_is_there(
    bused: Settings, address: Address, model: OpenAIStub, server: NatsServer
) -> None:
    async with open_parley(bused, address, model) as parley:
        app = parley.app
        transport = httpx.ASGITransport(app=build_web(app))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            login = {"Authorization": f"Bearer {app.secrets.api_token}"}
            for is_connected in (True, False):
                await until(lambda wanted=is_connected: app.events.notifier.bus.is_connected is wanted)  # type: ignore[misc]
                metrics = (await client.get("/metrics", headers=login)).text
                assert f"parley_bus_connected {float(is_connected)}" in metrics
                installation = Installation(bused, [], [])
                findings = [finding async for finding in check_bus(address, installation)]
                assert [finding.level for finding in findings] == ["ok" if is_connected else "warn"]
                assert (find_prefix(address, [KEY]) in findings[0].text) is is_connected
                await server.kill()


def test_installations_on_one_server_have_subjects_of_their_own(address: Address) -> None:
    prefix = find_prefix(address, [KEY])

    assert find_prefix(address, [KEY, "an older one"]) == prefix
    assert find_prefix(address, ["another"]) != prefix
    assert find_prefix(replace(address, url=address.url.set(database="other")), [KEY]) != prefix


def test_notes_are_sent_in_messages_that_a_server_takes() -> None:
    notes = ["x" * 8000] * 30

    batches = list(split(notes))

    assert [note for batch in batches for note in batch] == notes
    assert max(sum(map(len, batch)) for batch in batches) <= MOST_CHARS
    assert list(split([])) == []
