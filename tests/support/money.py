"""The rules of money, called as an admin calls them in psql."""

import json
from dataclasses import dataclass
from typing import Any

import asyncpg

SETUP = """
INSERT INTO users (id, display_name) VALUES (1, 'Ann');
INSERT INTO servers (id, platform, platform_server_id) VALUES (1, 'discord', 's');
INSERT INTO conversations (id, platform, platform_server_id, platform_channel_id)
VALUES (1, 'discord', 's', 'c'), (2, 'web', NULL, 'c');
SELECT nextval('turns_id_seq') FROM generate_series(1, 2);
INSERT INTO turns (id, conversation_id, user_id, attempt) VALUES (1, 1, 1, 2), (2, 2, 1, 1);
"""
CALL = {"purpose": "answer", "model": "openai/stub", "cached_tokens": 0, "cost": 0.01}


@dataclass
class Money:
    """A connection as the program's role, whose search path leads nowhere."""

    connection: asyncpg.Connection

    async def row(self, sql: str, *parameters: Any) -> dict[str, Any] | None:
        """Return the only row, None when there is none."""
        rows = await self.connection.fetch(sql, *parameters)
        assert len(rows) <= 1
        return dict(rows[0]) if rows else None

    async def user(self) -> tuple[int, int]:
        """Return what Ann has used and what is reserved."""
        row = await self.connection.fetchrow("SELECT tokens_used_this_month, tokens_reserved FROM public.users")
        return tuple(row)

    async def server(self) -> tuple[int, int]:
        """Return what the server has used and what is reserved."""
        row = await self.connection.fetchrow("SELECT tokens_used_this_month, tokens_reserved FROM public.servers")
        return tuple(row)

    async def limit(self, user: int | None = None, server: int | None = None) -> None:
        await self.connection.execute("UPDATE public.users SET token_budget_monthly = $1", user)
        await self.connection.execute("UPDATE public.servers SET token_budget_monthly = $1", server)

    async def reserve(
        self, tokens: int, *, turn: int = 1, attempt: int = 2, cost: float | None = None
    ) -> dict[str, Any] | None:
        return await self.row("SELECT * FROM public.parley_reserve(1, $1, $2, $3, $4, 60)", turn, attempt, tokens, cost)

    async def settle(self, *usage: tuple[int, int], attempt: int = 2, reserve: int = 0) -> dict[str, Any] | None:
        """Pay for calls with these input and output tokens."""
        calls = json.dumps(
            [
                CALL | {"input_tokens": input_tokens, "output_tokens": output_tokens}
                for input_tokens, output_tokens in usage
            ]
        )
        return await self.row("SELECT * FROM public.parley_settle(1, $1, $2, $3, NULL, 60)", attempt, calls, reserve)
