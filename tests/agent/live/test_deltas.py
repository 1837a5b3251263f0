"""The text of a running turn, for those who come late."""

import asyncio
import itertools
from typing import Any

from agent.live.deltas import DeltaSender


async def test_whoever_asks_again_and_again_is_told_the_text_of_a_step_now_and_then() -> None:
    queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    sender = DeltaSender(queue.put_nowait, itertools.count().__next__, is_reset=False)
    sender.add("It begins")
    sender.repeat()
    deltas = [(await queue.get())["delta"] for _ in range(2)]
    sender.repeat()
    sender.add(" like this.")
    sender.repeat()
    deltas += [(await queue.get())["delta"] for _ in range(2)]

    assert deltas == [
        {"text": "It begins"},
        {"text": "It begins", "reset": True},
        {"text": " like this."},
        {"text": "It begins like this.", "reset": True},
    ]


async def test_a_step_that_has_ended_meanwhile_is_not_told_again() -> None:
    queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    sender = DeltaSender(queue.put_nowait, itertools.count().__next__, is_reset=False)
    sender.add("First.")
    sender.repeat()
    sender.repeat()
    sender.end_step()
    sender.add("Second.")
    sender.end_step()

    deltas = [(await queue.get())["delta"]["text"] for _ in range(3)]
    assert deltas == ["First.", "First.", "Second."]


async def test_whoever_comes_after_the_end_of_a_step_makes_no_delta_behind_the_events_that_end_the_turn() -> None:
    queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    sender = DeltaSender(queue.put_nowait, itertools.count().__next__, is_reset=False)
    sender.add("First.")
    sender.end_step()
    sender.repeat()
    sender.add("Second.")
    sender.end_step()

    deltas = [await queue.get() for _ in range(2)]
    assert deltas == [{"seq": 0, "delta": {"text": "First."}}, {"seq": 1, "delta": {"text": "Second."}}]
