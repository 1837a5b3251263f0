"""Reads repetitions such as "every Monday at 9", "2 hours" or "weekdays at 8:30"."""

import re
from datetime import datetime, timedelta

from shared.dates.times import USUAL_TIME, read_moment, read_seconds, read_time
from shared.dates.words import MAX_HINT_CHARS, NUMBERS, WEEKDAYS, one_of
from shared.dates.zones import get_zone, to_moment
from shared.errors import ToolError
from shared.schedules.timing import Timing, at_interval, by_cron, once

EXAMPLES = (
    "2 hours",
    "day at 9",
    "weekday at 8:30",
    "Monday and Thursday at 14:00",
    "2 weeks at 10",
    "month on the 1st",
)
LEADING = re.compile(r"^(?:every|each|jeden?|jedes|jeder|alle)\s+")
COUNTED = re.compile(rf"(?P<count>\d{{1,4}}|other|second|{one_of(NUMBERS)}) (?P<unit>day|week|tag|woche)(?:s|e|en|n)?")
DAY_OF_MONTH = re.compile(r"(?:month|monat)(?: (?:on|am))?(?: the)?(?: day)?(?: (?P<day>\d{1,2})(?:st|nd|rd|th|\.)?)?")
ADVERBS = {"hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month", "stuendlich": "hour"}
ADVERBS |= {"taeglich": "day", "woechentlich": "week", "monatlich": "month"}
# Weekdays as cron counts them, by the words for several.
SETS = {
    "day": "*",
    "tag": "*",
    "weekday": "1-5",
    "workday": "1-5",
    "werktag": "1-5",
    "weekend": "0,6",
    "wochenende": "0,6",
}
SEPARATOR = re.compile(r"\s*(?:,|;|\band\b|\bund\b|&)\s*")
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


def read_repetition(text: str, now: datetime, time_zone: str) -> Timing:
    """Return the timing that a text such as "day at 9" means; without a time of day it is 9 o'clock.

    Raises `ToolError` with examples for a text that is not understood.
    """
    plain = " ".join(text.casefold().translate(UMLAUTS).split())
    if not plain or len(plain) > MAX_HINT_CHARS:
        raise ToolError(f"Give a repetition of up to {MAX_HINT_CHARS} characters.", examples=EXAMPLES)
    plain = LEADING.sub("", plain)
    first, _, others = plain.partition(" ")
    plain = f"{ADVERBS.get(first, first)} {others}".strip()
    seconds = read_seconds("an hour" if plain == "hour" else "a minute" if plain == "minute" else plain)
    if seconds is not None:
        return at_interval(now + timedelta(seconds=seconds), seconds, "second", time_zone=time_zone)
    rest, clock = read_time(plain)
    at = clock.time if clock else USUAL_TIME
    # Every evening is every day.
    rest = re.sub(r"^(?:week|woche) (?:on|am) ", "", rest.strip(" ,")) or ("day" if clock else "")
    if match := COUNTED.fullmatch("one week" if rest in {"week", "woche"} else rest):
        count = 2 if match["count"] in {"other", "second"} else NUMBERS.get(match["count"]) or int(match["count"])
        zone = get_zone(time_zone)
        today = datetime.combine(now.astimezone(zone).date(), at)
        start = next(
            moment for moment in (to_moment(today + timedelta(days=more), zone) for more in (0, 1, 2)) if moment > now
        )
        return at_interval(start, count * (7 if match["unit"] in {"week", "woche"} else 1), "day", time_zone=time_zone)
    if match := DAY_OF_MONTH.fullmatch(rest):
        return by_cron(f"{at.minute} {at.hour} {match['day'] or 1} * *", time_zone)
    words = [word if word in WEEKDAYS or word in SETS else word.removesuffix("s") for word in SEPARATOR.split(rest)]
    if all(word in WEEKDAYS or word in SETS for word in words):
        # In cron, Sunday is 0; among our weekdays it is the last one.
        weekdays = [SETS.get(word) or str((WEEKDAYS[word] + 1) % 7) for word in words]
        days = "*" if "*" in weekdays else ",".join(weekdays)
        return by_cron(f"{at.minute} {at.hour} * * {days}", time_zone)
    raise ToolError(f"I don't understand {text.strip()!r} as a repetition.", examples=EXAMPLES)


def read_timing(text: str, now: datetime, time_zone: str, week_start: str = "monday") -> Timing:
    """Return the timing of any text: a repetition, a cron expression after the word cron, or a moment.

    Raises `ToolError` with examples for a text that is not understood, or a moment that has passed.
    """
    plain = " ".join(text.casefold().translate(UMLAUTS).split())
    if plain.startswith("cron "):
        return by_cron(plain.removeprefix("cron "), time_zone)
    if LEADING.match(plain) or plain.partition(" ")[0] in ADVERBS:
        return read_repetition(text, now, time_zone)
    return once(read_moment(text, now, time_zone, week_start=week_start), time_zone)
