"""How processes share a bot's shards, as the database decides it: evenly, one holder each, and few moves."""

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from adapters.base import BotAccount
from adapters.discord.shards import statements
from shared.db.database import Address
from tests.support.connections import connected
from tests.support.parley import Parley

LEASE = 12.0


@dataclass
class Listener:
    """A process as the database sees it, which connects at once what it gets."""

    parley: Parley
    name: str
    bot_id: int
    count: int
    shard_ids: list[int] | None = None
    claims: int = 1
    unserved: list[int] = field(default_factory=list)
    shards: dict[int, str | None] = field(default_factory=dict)
    seen: str | None = None
    valid_count: int = 0

    async def renew(self) -> None:
        """Renew the lease and take over what the answer says."""
        parameters = {
            "bot_id": self.bot_id,
            "holder": self.name,
            "lease": LEASE,
            "count": self.count,
            "shard_ids": self.shard_ids,
            "held": list(self.shards),
            "seen": [self.seen for _ in self.shards],
            "claims": self.claims,
            "unserved": self.unserved,
        }
        async with self.parley.app.database.statement() as session:
            rows = (await session.execute(statements.hold_shards, parameters)).all()
        self.valid_count = rows[0].shard_count
        self.shards = {row.shard_id: row.seen_id for row in rows if row.shard_id is not None}

    async def die(self) -> None:
        """Stop renewing, long ago."""
        await self.parley.sql(
            "UPDATE listeners SET alive_until = now() - interval '1 s' WHERE holder = :h", h=self.name
        )


@pytest.fixture
async def bot_id(parley: Parley) -> int:
    return await BotAccount(parley.app.database, "discord", "token").find_id()


async def settle(*listeners: Listener) -> int:
    """Let all renew until nothing changes any more; return how often a shard changed its holder."""
    moves, before = 0, None
    while (shares := {listener.name: set(listener.shards) for listener in listeners}) != before:
        before = shares
        for _ in range(3):
            for listener in listeners:
                earlier = set(listener.shards)
                await listener.renew()
                moves += len(set(listener.shards) - earlier)
    return moves


async def test_processes_that_start_together_share_evenly_without_moving_any(parley: Parley, bot_id: int) -> None:
    listeners = [Listener(parley, name, bot_id, 16) for name in ("a", "b", "c")]

    assert await settle(*listeners) == 16

    assert sorted(len(listener.shards) for listener in listeners) == [5, 5, 6]
    assert Counter(shard for listener in listeners for shard in listener.shards) == Counter(range(16))


async def test_who_comes_later_gets_an_even_share_by_the_fewest_moves(parley: Parley, bot_id: int) -> None:
    first, second = Listener(parley, "a", bot_id, 8, claims=8), Listener(parley, "b", bot_id, 8)
    await settle(first)
    assert len(first.shards) == 8

    assert await settle(first, second) == 4

    assert (len(first.shards), len(second.shards)) == (4, 4)
    # Direct messages come to shard 0.
    assert 0 in first.shards


async def test_a_difference_of_one_moves_nothing(parley: Parley, bot_id: int) -> None:
    first, second = Listener(parley, "a", bot_id, 1), Listener(parley, "b", bot_id, 1)
    await settle(first)

    assert await settle(first, second) == 0


async def test_the_shards_of_the_dead_go_to_the_others_who_begin_where_they_had_come(
    parley: Parley, bot_id: int
) -> None:
    dead, *others = [Listener(parley, name, bot_id, 6, claims=2) for name in ("a", "b", "c")]
    await settle(dead, *others)
    dead.seen = "7001"
    await dead.renew()
    await dead.die()

    await settle(*others)

    assert [len(listener.shards) for listener in others] == [3, 3]
    assert {shard: mark for listener in others for shard, mark in listener.shards.items() if mark} == dict.fromkeys(
        dead.shards, "7001"
    )
    await dead.renew()
    assert not dead.shards


async def test_whoever_came_and_went_each_shard_has_one_holder_and_nobody_two_more_than_another(
    parley: Parley, bot_id: int
) -> None:
    dice = random.Random(4711)  # noqa: S311
    living: list[Listener] = []
    for number in range(12):
        if living and dice.random() < 0.4:
            await living.pop(dice.randrange(len(living))).die()
        living.append(Listener(parley, f"process {number}", bot_id, 9, claims=dice.choice((1, 4))))
        for listener in dice.choices(living, k=dice.randrange(9)):
            await listener.renew()
            await listener.renew()
        await settle(*living)

        sizes = sorted(len(listener.shards) for listener in living)
        assert sizes[-1] - sizes[0] <= 1
        assert Counter(shard for listener in living for shard in listener.shards) == Counter(range(9))


async def test_ranges_are_kept_and_what_only_one_may_hold_is_not_left_for_balance(parley: Parley, bot_id: int) -> None:
    wide = Listener(parley, "a", bot_id, 4, claims=4)
    narrow = Listener(parley, "b", bot_id, 4, shard_ids=[3], claims=4)
    await settle(wide)

    assert await settle(wide, narrow) == 1

    assert (sorted(wide.shards), sorted(narrow.shards)) == ([0, 1, 2], [3])


async def test_a_shard_that_its_process_can_not_connect_goes_to_one_that_is_ready(parley: Parley, bot_id: int) -> None:
    deaf, other = Listener(parley, "a", bot_id, 1), Listener(parley, "b", bot_id, 1)
    await settle(deaf, other)
    deaf.claims, deaf.unserved = 0, [0]

    await settle(deaf, other)

    assert (sorted(deaf.shards), sorted(other.shards)) == ([], [0])


async def test_a_shard_that_nobody_can_connect_stays_where_it_is(parley: Parley, bot_id: int) -> None:
    alone = Listener(parley, "a", bot_id, 1)
    await settle(alone)
    alone.claims, alone.unserved = 0, [0]

    await settle(alone)

    assert sorted(alone.shards) == [0]


async def test_a_lease_that_ends_in_a_time_to_come_is_of_a_clock_that_was_set_back(parley: Parley, bot_id: int) -> None:
    dead, other = Listener(parley, "a", bot_id, 1), Listener(parley, "b", bot_id, 1)
    await settle(dead, other)
    await parley.sql("UPDATE listeners SET alive_until = alive_until + interval '1 hour' WHERE holder = 'a'")

    await other.renew()

    assert sorted(other.shards) == [0]


async def test_the_number_of_shards_changes_when_all_want_it_and_nothing_is_passed_over(
    parley: Parley, bot_id: int
) -> None:
    first, second = (Listener(parley, name, bot_id, 2) for name in ("a", "b"))
    await settle(first, second)
    first.seen, second.seen = "300", "2000"
    await settle(first, second)
    first.count = 4
    await settle(first, second)
    assert (first.valid_count, len(first.shards), len(second.shards)) == (2, 1, 1)

    second.count = 4
    first.seen = second.seen = None
    await settle(first, second)

    assert (first.valid_count, second.valid_count) == (4, 4)
    assert {**first.shards, **second.shards} == dict.fromkeys(range(4), "300")


async def test_an_admin_moves_a_shard_and_it_does_not_come_back(parley: Parley, bot_id: int, address: Address) -> None:
    first, second = (Listener(parley, name, bot_id, 2, claims=2) for name in ("a", "b"))
    await settle(first, second)
    [shard] = first.shards

    async with connected(address, role="parley_admin") as admin:
        assert "a gives up shard" in await admin.fetchval("SELECT admin.move_shard($1)", shard)
    await settle(second, first)

    assert shard in second.shards
    assert [len(first.shards), len(second.shards)] == [1, 1]
