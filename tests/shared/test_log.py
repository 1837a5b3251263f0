"""A line of the log, as operators read it."""

import pytest
import structlog

from shared.log import write_line

WHEN = {"timestamp": "2026-01-02T03:04:05.678901Z", "level": "info"}


def test_a_line_is_written_as_structlog_writes_it_without_colours() -> None:
    event = {
        "timestamp": "2026-01-02T03:04:05.678901Z",
        "level": "info",
        "event": "turn_finished",
        "turn": 7,
        "status": "answered",
        "cause": "no room left",
        "cost": None,
        "tools": {"weather.get_weather": 2},
    }
    failure = {
        "timestamp": "2026-01-02T03:04:05.678901Z",
        "level": "error",
        "event": "failed",
        "exception": "Traceback\n  at",
    }
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)

    for fields in (event, failure):
        assert write_line(None, "info", dict(fields)) == renderer(None, "info", dict(fields))


@pytest.mark.parametrize("event", [ValueError("no room"), b"bytes", {"turn": 7}, None])
def test_an_event_that_is_no_text_is_written_as_one(event: object) -> None:
    assert write_line(None, "info", {**WHEN, "event": event, "turn": 7}).split("] ")[1].startswith(str(event))


def test_an_event_without_a_name_is_written() -> None:
    assert write_line(None, "info", {**WHEN, "turn": 7}).endswith(" turn=7")


@pytest.mark.parametrize("value", ["\x1b[2J", "a\x07", "\x9b2J", "a\u202eb"])
def test_a_value_does_not_steer_the_terminal_that_shows_it(value: str) -> None:
    assert write_line(None, "info", {**WHEN, "event": "read", "name": value}).isprintable()
