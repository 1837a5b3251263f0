"""A line of the log, as operators read it."""

import structlog

from shared.log import write_line


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
