"""Reads moments such as "tomorrow at 9" or "in 20 minutes", in a person's time zone.

Days are read by the grammar of `hints`; this adds the time of day and what is shorter than a day.
"""

import re
import unicodedata
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from msgspec import Struct

from shared.dates.hints import resolve
from shared.dates.words import DAYS_AWAY, MAX_HINT_CHARS, NUMBERS, UNITS, normalise, one_of
from shared.dates.zones import resolve_zone, to_moment
from shared.errors import ToolError

EXAMPLES = ("tomorrow at 9", "next Friday at 14:30", "in 20 minutes", "2027-01-17 09:00")
DAY_SECONDS = 86_400
USUAL_TIME, NOON = time(9), time(12)
TIMES_OF_DAY = {
    name: time(hour)
    for hour, names in (
        (0, "midnight mitternacht"),
        (9, "morning morgens frueh vormittag vormittags"),
        (12, "noon midday mittag mittags"),
        (15, "afternoon nachmittag nachmittags"),
        (19, "evening abend abends tonight"),
        (21, "night nachts"),
    )
    for name in names.split()
}
# How many seconds each unit that is shorter than a day has.
SHORT_UNITS = {
    name: seconds
    for seconds, names in (
        (1, "s sec secs second seconds sekunde sekunden"),
        (60, "m min mins minute minutes minuten"),
        (3600, "h hr hrs hour hours stunde stunden"),
    )
    for name in names.split()
}
COUNT = rf"\d{{1,6}}|half an?|(?:eine )?halbe|{one_of(NUMBERS)}"
DURATION = re.compile(rf"({COUNT}) ?({one_of(SHORT_UNITS)})(?![a-z])( and a half)?")
DURATIONS = re.compile(rf"(?:{DURATION.pattern}(?: and)? ?)+")
# In the middle of a text, where a part of a number or a word is no count.
MENTIONED = re.compile(rf"(?<![\w.,:/]){DURATIONS.pattern}")
LATER = re.compile(rf"in (?:\d{{1,4}}|{one_of(NUMBERS)}) (?:{one_of(UNITS)})")
CLOCK = re.compile(
    r"(?:\b(?P<at>at|um|@) ?)?\b(?P<hour>\d{1,2})(?:[:](?P<minute>\d{2})(?::\d{2})?)?"
    r"(?: ?(?P<half>am|pm|a\.m\.?|p\.m\.?)\b| ?(?P<word>uhr|o'?clock|h)\b(?: ?(?P<later>\d{2})\b)?)?(?![\d.:/-])"
)
NAMED = re.compile(rf"(?:\b(?:at|in|this|um|am) (?:the )?)?\b(?P<name>{one_of(TIMES_OF_DAY)})\b")


class Clock(Struct, frozen=True):
    """A time of day; `is_vague` when it may be meant before or after noon, as in "at 5"."""

    time: time
    is_vague: bool = False


def read_time(text: str) -> tuple[str, Clock | None]:
    """Take the time of day out of a text in lower case; return the other words, and the time if there is one.

    Raises `ToolError` for a time that no clock shows.
    """
    name_match = NAMED.search(text)
    for match in CLOCK.finditer(text):
        if match["at"] or match["minute"] or match["half"] or match["word"]:
            hour, minute, half = int(match["hour"]), int(match["minute"] or match["later"] or 0), match["half"] or ""
            if hour > 23 or minute > 59 or (half and not 1 <= hour <= 12):
                raise ToolError(f"There is no time {match[0].strip()!r}.", examples=EXAMPLES)
            is_vague = not half and not match["word"] and 1 <= hour < 12
            if half:
                hour = hour % 12 + (12 if half.startswith("p") else 0)
            clock = Clock(time(hour, minute), is_vague=is_vague)
            if name_match is not None and clock.is_vague:
                # At 9 in the evening.
                is_late = TIMES_OF_DAY[name_match["name"]] >= NOON
                clock = Clock(clock.time.replace(hour=clock.time.hour + (12 if is_late else 0)))
            rest = " ".join(f"{text[: match.start()]} {text[match.end() :]}".split())
            return _without_named(rest), clock
    return (text, None) if name_match is None else (_without_named(text), Clock(TIMES_OF_DAY[name_match["name"]]))


def read_seconds(text: str) -> int | None:
    """Return the seconds of a duration such as "2 hours and 30 minutes", None for other text."""
    if not DURATIONS.fullmatch(text):
        return None
    seconds = 0
    for match in DURATION.finditer(text):
        word, unit = match[1], SHORT_UNITS[match[2]]
        if "hal" in word:
            seconds += unit // 2
        else:
            count = NUMBERS[word] if word in NUMBERS else int(word)
            seconds += count * unit + (unit // 2 if match[3] else 0)
    return seconds


def list_durations(text: str) -> set[timedelta]:
    """Return the durations from a minute to a day that a text mentions, such as "a 2-hour walk" or "half an hour"."""
    plain = re.sub(r"(?<=\w)-(?=[a-z])", " ", " ".join(unicodedata.normalize("NFKC", text).casefold().split()))
    seconds = (read_seconds(mention[0]) for mention in MENTIONED.finditer(plain))
    return {timedelta(seconds=count) for count in seconds if count is not None and 60 <= count <= DAY_SECONDS}


def read_moment(text: str, now: datetime, time_zone: str, week_start: str = "monday") -> datetime:
    """Return the moment, in UTC, that a text means for a person; without a time of day it is 9 o'clock.

    Raises `ToolError` with examples for a text that is not understood, and for a moment that has passed.
    """
    zone = resolve_zone(time_zone)
    plain = " ".join(text.casefold().split())
    if not plain or len(plain) > MAX_HINT_CHARS:
        raise ToolError(f"Give a time of up to {MAX_HINT_CHARS} characters.", examples=EXAMPLES)
    exact = None
    if ":" in plain:
        with suppress(ValueError):
            exact = datetime.fromisoformat(plain.upper())
    try:
        if exact is None:
            moment = _read_later(plain, now, zone) or _read_day(plain, now, zone, week_start=week_start)
        else:
            moment = to_moment(exact, zone) if exact.tzinfo is None else exact.astimezone(UTC)
    except OverflowError:
        raise ToolError(f"There is no such time: {text.strip()!r}.", examples=EXAMPLES) from None
    if moment <= now:
        local_time = f"{moment.astimezone(zone):%d %B %Y, %H:%M}"
        raise ToolError(f"{text.strip()!r} means {local_time} ({zone}), which has passed.", examples=EXAMPLES)
    return moment


def _read_later(text: str, now: datetime, zone: ZoneInfo) -> datetime | None:
    seconds = read_seconds(text.removeprefix("in "))
    if seconds is not None:
        return now + timedelta(seconds=seconds)
    if not LATER.fullmatch(text):
        return None
    # In three days: at the time of day that it is now.
    today = now.astimezone(zone).replace(tzinfo=None)
    return to_moment(datetime.combine(resolve(text, now, str(zone)).start, today.time()), zone)


def _read_day(text: str, now: datetime, zone: ZoneInfo, week_start: str) -> datetime:
    rest, clock = read_time(text)
    local = now.astimezone(zone).replace(tzinfo=None)
    day = normalise(rest)
    if clock is None and not day:
        raise ToolError(f"I don't understand {text!r} as a time.", examples=EXAMPLES)
    if clock is not None and not day:
        # At 10 in the morning, "at 5" is the afternoon.
        hours = [clock.time.hour, *([clock.time.hour + 12] if clock.is_vague else [])]
        today = [datetime.combine(local.date(), clock.time.replace(hour=hour)) for hour in hours]
        coming = [moment for moment in today if moment > local]
        return to_moment(coming[0] if coming else today[0] + timedelta(days=1), zone)
    at = clock.time if clock else USUAL_TIME
    start = resolve(rest, now, str(zone), week_start=week_start).start
    moment = to_moment(datetime.combine(start, at), zone)
    if moment > now:
        return moment
    if day in DAYS_AWAY:
        is_vague = start == local.date() and clock is not None and clock.is_vague
        return to_moment(datetime.combine(start, at.replace(hour=at.hour + 12)), zone) if is_vague else moment
    # On a Monday at 10, "Monday at 9" is that of the next week.
    later = resolve(rest, now + timedelta(days=1), str(zone), week_start=week_start).start
    return to_moment(datetime.combine(later, at), zone)


def _without_named(text: str) -> str:
    # Tonight names the day as well.
    return NAMED.sub(lambda match: " today " if match["name"] == "tonight" else " ", text, count=1).strip()
