"""The most common holidays of the world, with their names, rules and notes."""

from collections.abc import Callable, Iterable
from datetime import date

from msgspec import Struct

from modules.calendar.listed import first_days
from shared.dates.ranges import add_days, month_of, nth_weekday, weekday_from

Rule = Callable[[int], Iterable[date]]
MON, THU, SUN = 0, 3, 6
BEGINS_AT_SUNSET = "Begins at sunset on {eve}"
SUNSET = f"{BEGINS_AT_SUNSET}."
MOON = f"{BEGINS_AT_SUNSET}; the sighting of the moon may move it by a day."


class Holiday(Struct, frozen=True):
    """A holiday; `first` gives its first days in a year, `{eve}` in the note stands for the day before."""

    name: str
    others: tuple[str, ...]
    first: Rule
    days: int = 1
    note: str = ""
    begins_at_sunset: bool = False


def _fixed(month: int, day: int) -> Rule:
    return lambda year: [date(year, month, day)]


def _nth(nth: int, weekday: int, month: int, later: int = 0) -> Rule:
    return lambda year: [add_days(nth_weekday(month_of(year, month), weekday, nth), later)]


def listed_in(country: str, name: str, later: int = 0) -> Rule:
    """Return the rule for a holiday of a country's list, moved by `later` days."""
    return lambda year: [add_days(day, later) for day in first_days(country, name, year)]


def _easter(later: int = 0) -> Rule:
    return listed_in("PL", "Easter Sunday", later)


def _advent(year: int) -> list[date]:
    return [weekday_from(date(year, 11, 27), SUN)]


# All names, separated by bars; rule; number of days; note.
ROWS: tuple[tuple[str, Rule, int, str], ...] = (
    ("Purim", listed_in("IL", "Purim"), 1, SUNSET),
    ("Passover|Pesach|Pessach|Passah", listed_in("IL", "Pesach"), 8, f"{SUNSET} In Israel it has seven days."),
    ("Lag BaOmer", listed_in("IL", "Lag BaOmer"), 1, SUNSET),
    ("Shavuot|Shavuos|Schawuot|Feast of Weeks", listed_in("IL", "Shavuot"), 2, f"{SUNSET} In Israel it has one day."),
    ("Tisha B'Av", listed_in("IL", "Tisha B'Av"), 1, SUNSET),
    ("Rosh Hashanah|Rosh Hashana|Rosch Haschana|Jewish New Year", listed_in("IL", "Rosh Hashanah"), 2, SUNSET),
    ("Yom Kippur|Jom Kippur|Day of Atonement|Versöhnungstag", listed_in("IL", "Yom Kippur"), 1, SUNSET),
    ("Sukkot|Sukkos|Succot|Laubhüttenfest|Feast of Tabernacles", listed_in("IL", "Sukkot"), 7, SUNSET),
    ("Simchat Torah|Shemini Atzeret", listed_in("IL", "Simchat Torah / Shemini Atzeret"), 1, SUNSET),
    ("Hanukkah|Chanukah|Hanuka|Chanukka|Festival of Lights|Lichterfest", listed_in("IL", "Hanukkah"), 8, SUNSET),
    ("Yom HaAtzmaut|Israel Independence Day", listed_in("IL", "Independence Day"), 1, SUNSET),
    ("Ramadan|Ramazan|Ramadhan", listed_in("MV", "First Day of Ramadan"), 30, f"{MOON} It has 29 or 30 days."),
    ("Eid al-Fitr|Eid|Eid ul-Fitr|Id al-Fitr|Zuckerfest|Ramadanfest", listed_in("MV", "Eid al-Fitr"), 3, MOON),
    ("Eid al-Adha|Eid ul-Adha|Bakrid|Kurban Bayrami|Opferfest", listed_in("MV", "Eid al-Adha"), 4, MOON),
    ("Islamic New Year|Hijri New Year|Muharram", listed_in("MV", "Islamic New Year"), 1, MOON),
    ("Ashura", listed_in("DZ", "Ashura"), 1, MOON),
    ("Mawlid|Prophet's Birthday|Milad un-Nabi", listed_in("MV", "Prophet's Birthday"), 1, MOON),
    ("Diwali|Deepavali|Divali", listed_in("IN", "Diwali"), 1, "The main day; the festival lasts about five days."),
    ("Holi|Festival of Colours", listed_in("IN", "Holi"), 1, ""),
    ("Dussehra|Vijayadashami", listed_in("IN", "Dussehra"), 1, ""),
    ("Raksha Bandhan|Rakhi", listed_in("IN", "Raksha Bandhan"), 1, ""),
    ("Janmashtami", listed_in("IN", "Janmashtami"), 1, ""),
    ("Vesak|Buddha's Birthday|Buddha Purnima", listed_in("MY", "Vesak Day"), 1, ""),
    (
        "Chinese New Year|Lunar New Year|Spring Festival|Tet|Seollal|Chinesisches Neujahr",
        listed_in("CN", "Chinese New Year"),
        1,
        "The first day; it is celebrated for up to fifteen.",
    ),
    ("Dragon Boat Festival", listed_in("CN", "Dragon Boat Festival"), 1, ""),
    ("Mid-Autumn Festival|Moon Festival|Mondfest", listed_in("CN", "Mid-Autumn Festival"), 1, ""),
    ("Chuseok", listed_in("KR", "Chuseok"), 1, "The main day, between two days off."),
    ("Nowruz|Norouz|Newroz|Persian New Year", listed_in("IR", "Nowruz"), 1, ""),
    ("Songkran|Thai New Year", _fixed(4, 13), 3, ""),
    ("New Year|New Year's Day|Neujahr", _fixed(1, 1), 1, ""),
    ("New Year's Eve|Silvester|Sylvester", _fixed(12, 31), 1, ""),
    ("Epiphany|Three Kings' Day|Heilige Drei Könige|Dreikönigstag", _fixed(1, 6), 1, ""),
    ("Valentine's Day|Valentinstag", _fixed(2, 14), 1, ""),
    ("International Women's Day|Frauentag|Weltfrauentag", _fixed(3, 8), 1, ""),
    ("St Patrick's Day|Saint Patrick's Day|Paddy's Day", _fixed(3, 17), 1, ""),
    ("April Fools' Day", _fixed(4, 1), 1, ""),
    ("Earth Day", _fixed(4, 22), 1, ""),
    ("Anzac Day", _fixed(4, 25), 1, ""),
    ("King's Day|Koningsdag|Königstag", _fixed(4, 27), 1, ""),
    ("May Day|International Workers' Day|Tag der Arbeit|Erster Mai", _fixed(5, 1), 1, ""),
    ("Cinco de Mayo", _fixed(5, 5), 1, ""),
    ("Juneteenth", _fixed(6, 19), 1, ""),
    ("Canada Day", _fixed(7, 1), 1, ""),
    ("US Independence Day|Independence Day|Fourth of July|4th of July", _fixed(7, 4), 1, "In the United States."),
    ("Bastille Day|French National Day", _fixed(7, 14), 1, ""),
    ("Swiss National Day|Bundesfeier", _fixed(8, 1), 1, ""),
    ("Assumption Day|Mariä Himmelfahrt", _fixed(8, 15), 1, ""),
    ("German Unity Day|Tag der Deutschen Einheit", _fixed(10, 3), 1, ""),
    ("Austrian National Day|Nationalfeiertag", _fixed(10, 26), 1, ""),
    ("Reformation Day|Reformationstag", _fixed(10, 31), 1, ""),
    ("Halloween", _fixed(10, 31), 1, ""),
    ("All Saints' Day|Allerheiligen", _fixed(11, 1), 1, ""),
    ("All Souls' Day|Day of the Dead|Dia de los Muertos|Allerseelen", _fixed(11, 2), 1, ""),
    ("Guy Fawkes Night|Bonfire Night", _fixed(11, 5), 1, ""),
    ("St Martin's Day|Martinstag|Sankt Martin", _fixed(11, 11), 1, ""),
    ("Veterans Day|Remembrance Day|Armistice Day", _fixed(11, 11), 1, ""),
    ("St Nicholas Day|Nikolaus|Nikolaustag", _fixed(12, 6), 1, ""),
    ("Christmas Eve|Heiligabend|Heiliger Abend", _fixed(12, 24), 1, ""),
    (
        "Christmas|Christmas Day|Xmas|X-mas|Weihnachten|Erster Weihnachtsfeiertag|Noel|Navidad",
        _fixed(12, 25),
        1,
        "Christmas Eve is the day before; in much of Europe the day after is a holiday too.",
    ),
    ("Boxing Day|St Stephen's Day|Zweiter Weihnachtsfeiertag|Stephanstag", _fixed(12, 26), 1, ""),
    ("Kwanzaa", _fixed(12, 26), 7, ""),
    ("Orthodox Christmas", _fixed(1, 7), 1, ""),
    ("Australia Day", _fixed(1, 26), 1, ""),
    ("Martin Luther King Day|MLK Day", _nth(3, MON, 1), 1, ""),
    ("Presidents' Day|Washington's Birthday", _nth(3, MON, 2), 1, ""),
    ("Mother's Day|Muttertag", _nth(2, SUN, 5), 1, "In most countries; in the United Kingdom it is in March."),
    ("Memorial Day", _nth(-1, MON, 5), 1, ""),
    ("Father's Day", _nth(3, SUN, 6), 1, "In most countries; in Germany it is Ascension Day."),
    ("US Labor Day|Labor Day", _nth(1, MON, 9), 1, "In the United States; in most countries it is 1 May."),
    ("Canadian Thanksgiving", _nth(2, MON, 10), 1, ""),
    ("Columbus Day|Indigenous Peoples' Day", _nth(2, MON, 10), 1, ""),
    ("Thanksgiving|Thanksgiving Day|Turkey Day", _nth(4, THU, 11), 1, "In the United States."),
    ("Black Friday", _nth(4, THU, 11, later=1), 1, ""),
    ("Cyber Monday", _nth(4, THU, 11, later=4), 1, ""),
    ("Buß- und Bettag", lambda year: [add_days(_advent(year)[0], -11)], 1, ""),
    ("Totensonntag", lambda year: [add_days(_advent(year)[0], -7)], 1, ""),
    ("First Sunday of Advent|Advent|Erster Advent", _advent, 1, ""),
    ("Rose Monday|Rosenmontag", _easter(-48), 1, ""),
    ("Shrove Tuesday|Mardi Gras|Carnival|Fasching|Karneval|Fastnacht|Pancake Day", _easter(-47), 1, ""),
    ("Ash Wednesday|Aschermittwoch", _easter(-46), 1, ""),
    ("Palm Sunday|Palmsonntag", _easter(-7), 1, ""),
    ("Maundy Thursday|Holy Thursday|Gründonnerstag", _easter(-3), 1, ""),
    ("Good Friday|Karfreitag", _easter(-2), 1, ""),
    ("Easter weekend|Osterwochenende", _easter(-2), 4, "From Good Friday to Easter Monday."),
    ("Easter|Easter Sunday|Ostern|Ostersonntag", _easter(), 1, "Good Friday is two days before."),
    ("Easter Monday|Ostermontag", _easter(1), 1, ""),
    ("Ascension Day|Christi Himmelfahrt|Himmelfahrt|Vatertag", _easter(39), 1, ""),
    (
        "Pentecost|Whitsun|Whit Sunday|Pfingsten|Pfingstsonntag",
        _easter(49),
        1,
        "Often the Monday after too.",
    ),
    ("Whit Monday|Pentecost Monday|Pfingstmontag", _easter(50), 1, ""),
    ("Corpus Christi|Fronleichnam", _easter(60), 1, ""),
    ("Orthodox Easter|Greek Easter|Pascha", listed_in("GR", "Easter Monday", -1), 1, ""),
)
HOLIDAYS = tuple(
    Holiday(name, tuple(others), first, days=days, note=note, begins_at_sunset=note.startswith(BEGINS_AT_SUNSET))
    for names, first, days, note in ROWS
    for name, *others in (names.split("|"),)
)
