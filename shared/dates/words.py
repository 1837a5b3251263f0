"""English and German words for dates, and the normalisation of text for matching."""

import re
import unicodedata
from collections.abc import Iterable

MAX_HINT_CHARS = 120
# Written without umlauts, because `normalise` turns "März" into "maerz".
MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar jaenner",
            "february feb februar febr feber",
            "march mar maerz mrz marz",
            "april apr",
            "may mai",
            "june jun juni",
            "july jul juli",
            "august aug",
            "september sep sept",
            "october oct oktober okt",
            "november nov",
            "december dec dezember dez",
        ),
        1,
    )
    for name in names.split()
}
WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            "monday mon montag mo",
            "tuesday tue tues dienstag di",
            "wednesday wed mittwoch mi",
            "thursday thu thur thurs donnerstag",
            "friday fri freitag fr",
            "saturday sat samstag sonnabend sa",
            "sunday sun sonntag so",
        )
    )
    for name in names.split()
}
NUMBERS = {
    name: number
    for number, names in (
        (1, "a an one ein eine einem einer einen"),
        (2, "two couple zwei"),
        (3, "three drei"),
        (4, "four vier"),
        (5, "five fuenf"),
        (6, "six sechs"),
        (7, "seven sieben"),
        (8, "eight acht"),
        (9, "nine neun"),
        (10, "ten zehn"),
        (11, "eleven elf"),
        (12, "twelve zwoelf"),
    )
    for name in names.split()
}
ORDINALS = {
    name: number
    for number, names in (
        (1, "first 1st 1. erster erste ersten erstes"),
        (2, "second 2nd 2. zweiter zweite zweiten zweites"),
        (3, "third 3rd 3. dritter dritte dritten drittes"),
        (4, "fourth 4th 4. vierter vierte vierten viertes"),
        (5, "fifth 5th 5. fuenfter fuenfte fuenften fuenftes"),
        (-1, "last letzter letzte letzten letztes"),
    )
    for name in names.split()
}
# The length of each unit: days, months.
UNITS = {
    name: length
    for length, names in (
        ((1, 0), "day days night nights tag tage tagen nacht naechte naechten"),
        ((7, 0), "week weeks woche wochen"),
        ((14, 0), "fortnight fortnights"),
        ((0, 1), "month months monat monate monaten monats"),
        ((0, 12), "year years jahr jahre jahren jahres"),
    )
    for name in names.split()
}
NIGHTS = ("night", "nights", "nacht", "naechte", "naechten")
DAYS_AWAY = {
    name: days
    for days, names in (
        (0, "today|now|tonight|this evening|this morning|this afternoon|heute|jetzt"),
        (1, "tomorrow|morgen"),
        (2, "day after tomorrow|uebermorgen"),
        (-1, "yesterday|last night|gestern"),
        (-2, "day before yesterday|vorgestern"),
    )
    for name in names.split("|")
}
# Offsets in units: 0 is the current or coming one, 1 the next, 2 the one after the next, -1 the previous one.
STEPS = {
    name: step
    for step, names in (
        (0, "this current coming upcoming dieser diese diesem diesen dieses diese kommende kommenden kommendes"),
        (1, "next following naechste naechster naechsten naechstes naechstem folgende folgenden folgendes"),
        (2, "uebernaechste uebernaechster uebernaechsten uebernaechstes uebernaechstem"),
        (-1, "last previous past letzte letzter letzten letztes letztem vergangene vergangenen vergangenes vorige"),
    )
    for name in names.split()
}
COMING = ("coming", "upcoming", "kommende", "kommenden", "kommendes")
PARTS = {
    name: part
    for part, names in (
        ("first", "beginning start anfang beginn"),
        ("last", "end ende"),
        ("early", "early"),
        ("mid", "mid middle mitte"),
        ("late", "late"),
    )
    for name in names.split()
}


DASHES = "\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}"
SPELLING = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"} | dict.fromkeys(DASHES, "-"))
# Words that do not change the meaning of a date.
ARTICLES = re.compile(r"\b(?:the|der|die|das|den|dem|des)\b")
LEADING = re.compile(r"^(?:on|at|in|during|over|um|am|im|zum|by)\s+")
TIME_OF_DAY = re.compile(
    r"(?<=\d)t\d{2}:\d{2}\S*$|\s+(?:(?:at|um)\s+)?\d{1,2}(?::\d{2})?\s?(?:am|pm|uhr)$|\s+(?:at|um)\s+\d{1,2}(?::\d{2})?$"
    r"|\s+(?:morning|noon|afternoon|evening|night|frueh|vormittag|mittag|nachmittag|abend|nacht)$"
)


def one_of(words: Iterable[str]) -> str:
    """Return a pattern that matches any of these words, the longest first."""
    return "|".join(re.escape(name) for name in sorted(words, key=len, reverse=True))


def normalise(hint: str) -> str:
    """Return the text in lower case, without umlauts, articles and other words that do not change its meaning."""
    text = unicodedata.normalize("NFKC", hint).casefold().translate(SPELLING)
    text = ARTICLES.sub(" ", re.sub(r"[,;!?\"'()]+", " ", text))
    return LEADING.sub("", " ".join(text.split()).rstrip("."))
