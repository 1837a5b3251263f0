"""The floor: a program that does only the unavoidable work of a turn, without any framework.

One statement reads user and history, one HTTP call asks the model (two when it calls tools), one transaction of two
statements stores messages and cost. It reads loads as JSON lines and answers with runs.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from typing import Any

import aiohttp
import asyncpg
import uvloop

from tests.bench.load import Load, Turn, drive
from tests.bench.model import mark

TABLES = """
DROP SCHEMA IF EXISTS floor CASCADE;
CREATE SCHEMA floor;
CREATE TABLE floor.users (id bigint PRIMARY KEY, budget bigint, used bigint NOT NULL DEFAULT 0);
CREATE TABLE floor.messages (
    id bigserial PRIMARY KEY, user_id bigint NOT NULL, role text NOT NULL, content text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON floor.messages (user_id, id);
INSERT INTO floor.users SELECT generate_series(0, 999);
"""
READ = """
SELECT users.used, ARRAY(SELECT ROW(role, content) FROM floor.messages WHERE user_id = $1 ORDER BY id DESC LIMIT 20)
FROM floor.users WHERE id = $1
"""
WRITE = "INSERT INTO floor.messages (user_id, role, content) SELECT $1, * FROM unnest($2::text[], $3::text[])"
PAY = "UPDATE floor.users SET used = used + $2 WHERE id = $1"

Message = dict[str, Any]
Ask = Callable[[list[Message]], Awaitable[tuple[Message, int]]]


async def keep_settings(_connection: object) -> None:
    """Skip the reset of a connection, which would be another round trip."""


def build_turn(pool: asyncpg.Pool, ask: Ask, load: Load) -> Turn:
    message = mark(load.tools, load.delay)

    async def turn(client: int, _count: int) -> None:
        _, past = await pool.fetchrow(READ, client)
        messages = [{"role": role, "content": content} for role, content in reversed(past) if role != "tool"]
        begins = len(messages)
        messages.append({"role": "user", "content": message})
        answer, spent = await ask(messages)
        calls = answer.get("tool_calls") or []
        if calls:
            results = [{"role": "tool", "tool_call_id": call["id"], "content": '{"memories": []}'} for call in calls]
            messages += [answer, *results]
            answer, more = await ask(messages)
            spent += more
        new = [*messages[begins:], answer]
        roles, contents = [entry["role"] for entry in new], [entry["content"] or "" for entry in new]
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute(WRITE, client, roles, contents)
            await connection.execute(PAY, client, spent)

    return turn


def over_http(session: aiohttp.ClientSession, base_url: str) -> Ask:
    """Ask the model by plain HTTP."""

    async def ask(messages: list[Message]) -> tuple[Message, int]:
        async with session.post(
            f"{base_url}/chat/completions", json={"model": "bench", "messages": messages}
        ) as response:
            answer = await response.json()
        return answer["choices"][0]["message"], answer["usage"]["total_tokens"]

    return ask


def over_litellm(base_url: str) -> Ask:
    """Ask the model through litellm's lightest route, with one client for all calls."""
    from shared.settings import prepare_litellm_environment

    prepare_litellm_environment()
    import litellm
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

    client = AsyncHTTPHandler()

    async def ask(messages: list[Message]) -> tuple[Message, int]:
        answer = await litellm.acompletion(
            model="hosted_vllm/bench", api_base=base_url, api_key="none", messages=messages, client=client
        )
        message = answer.choices[0].message.model_dump(exclude_none=True)
        return {"content": None, **message}, answer.usage.total_tokens

    return ask


async def main(dsn: str, base_url: str) -> None:
    """Run loads until the input ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    asks: dict[str, Ask] = {}
    async with (
        asyncpg.create_pool(dsn, min_size=10, max_size=10, reset=keep_settings) as pool,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        await pool.execute(TABLES)
        asks["http"] = over_http(session, base_url)
        while line := await reader.readline():
            request = json.loads(line)
            if request["ask"] not in asks:
                asks["litellm"] = over_litellm(base_url)
            load = Load(**request["load"])
            turn = build_turn(pool, asks[request["ask"]], load)
            await drive(replace(load, turns_each=1), turn)
            cpu = time.process_time()
            run = replace(await drive(load, turn), cpu=time.process_time() - cpu)
            sys.stdout.write(json.dumps(asdict(run)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
