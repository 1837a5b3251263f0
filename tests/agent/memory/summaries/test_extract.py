"""The extractive summary keeps facts, in few words; a model's summary is checked against what was said."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from agent.memory.summaries.extract import MAX_CHARS, extract, find_missing
from agent.memory.summaries.source import Line
from agent.memory.summaries.validation import find_fault

BEGAN = datetime(2026, 3, 2, 9, tzinfo=UTC)
FACTS = [
    ("Ann", "My sister Irene moves to Lisbon on 14 June.", ("Irene", "Lisbon", "14 June")),
    ("Bob", "We decided to take the blue logo.", ("blue logo",)),
    ("Ann", "The invoice of Hartmann is 1,830 euros.", ("Hartmann", "1,830")),
    ("Cleo", "The deadline for the grant is 3 April.", ("3 April",)),
    ("Bob", "I will bring the projector on Friday.", ("projector", "Friday")),
    ("Ann", "Bob agreed to pay the hotel in Graz.", ("Bob", "Graz")),
    ("Cleo", "My dog Pluto is allergic to chicken.", ("Pluto", "chicken")),
    ("Bob", "The door code is 5519.", ("5519",)),
    ("Ann", "We moved the workshop from Monday to Wednesday.", ("Wednesday",)),
    ("Cleo", "The contract with Nordwind ends in December 2027.", ("Nordwind", "December 2027")),
    ("Bob", "Who calls the caterer?", ("caterer",)),
    ("Ann", "The flight OS 417 leaves at 06:45.", ("417", "06:45")),
]
SMALL_TALK = [
    "Good morning everybody, hope you slept well!",
    "Haha, that is so true.",
    "Thanks a lot, very kind of you.",
    "It is raining again, what a pity.",
    "Hm, let me think about that for a while.",
    "Sounds good to me, really.",
    "Nice picture, where did you find something like that?",
    "Sorry, got distracted by the coffee machine, it makes strange noises these days and nobody repairs it.",
]


def dialogue(seed: int) -> list[Line]:
    choose = random.Random(seed)  # noqa: S311  # reproducible
    spoken = [(speaker, content, False) for speaker, content, _ in FACTS]
    talk = [(choose.choice(["Ann", "Bob", "Cleo"]), choose.choice(SMALL_TALK), False) for _ in range(60)]
    talk += [("Assistant", "You are welcome. Is there anything else that I can do for you?", True) for _ in range(20)]
    for line in talk:
        spoken.insert(choose.randrange(len(spoken) + 1), line)
    return [
        Line(number, BEGAN + timedelta(minutes=number), speaker, content, is_bot=is_bot)
        for number, (speaker, content, is_bot) in enumerate(spoken, 1)
    ]


def share_of_facts(summary: str) -> float:
    phrases = [phrase for _, _, details in FACTS for phrase in details]
    return sum(phrase in summary for phrase in phrases) / len(phrases)


@pytest.mark.parametrize("seed", range(5))
def test_an_extract_of_a_fifth_keeps_nine_of_ten_facts(seed: int) -> None:
    lines = dialogue(seed)
    chars = sum(len(line.content) for line in lines)

    summary = extract(None, lines, max_chars=chars // 5)

    assert share_of_facts(summary) >= 0.9
    assert len(summary) <= chars / 3


def test_facts_survive_many_rounds() -> None:
    lines, summary = dialogue(7), ""
    for start in range(0, len(lines), 12):
        summary = extract(summary, lines[start : start + 12])

    assert share_of_facts(summary) >= 0.9
    assert len(summary) <= MAX_CHARS * 1.5


def test_an_extract_says_who_said_it_and_when_in_the_order_of_the_conversation() -> None:
    lines = [
        Line(1, BEGAN, "Ann", "We meet in Graz on 4 May. The room is 12."),
        Line(2, BEGAN, "Bob: boss", "I pay 30 euros."),
    ]

    assert extract(None, lines) == (
        "- Ann (02 Mar 2026): We meet in Graz on 4 May. The room is 12.\n- Bob  boss (02 Mar 2026): I pay 30 euros."
    )


def test_any_text_has_an_extract() -> None:
    lines = [
        Line(1, BEGAN, "Ann", content) for content in ("🎉🎉", "我们五月四日在上海见面。", "مرحبا", "x" * 5000, "ok")
    ]

    assert "上海" in extract(None, lines)
    assert extract(None, [Line(1, BEGAN, "Ann", "ok")]) == "- Ann (02 Mar 2026): ok"


def test_only_what_a_summary_lacks_is_added() -> None:
    lines = [
        Line(1, BEGAN, "Ann", "We decided to meet on 4 May in Graz."),
        Line(2, BEGAN, "Bob", "The budget is 300 euros."),
    ]

    assert find_missing("They decided to meet on 4 May in Graz; the budget is 300 euros.", lines) == ""
    assert "300 euros" in find_missing("They decided to meet on 4 May in Graz.", lines)


SAID = [Line(1, BEGAN, "Ann", "Bob's sister lives in Graz and leads the Falcon project."), Line(2, BEGAN, "Bob", "Yes")]


@pytest.mark.parametrize(
    "summary",
    [
        "Ann said that Bob's sister lives in Graz.",
        "Discussed: Falcon. Bob's sister leads it. On Monday, 2 March they said so.",
        "- Ann: the sister of Bob lives in Graz\n- Agreed on nothing about the project",
    ],
)
def test_a_summary_of_what_was_said_has_no_fault(summary: str) -> None:
    assert find_fault(summary, SAID, None) is None


@pytest.mark.parametrize(
    ("summary", "name"),
    [
        ("Zelda's sister lives in Graz.", "Zelda"),
        ("Bob's sister lives in Graz with Peter Smith.", "Peter, Smith"),
        ("The sister lives in Graz. Yusuf leads the Falcon project.", "Yusuf"),
    ],
)
def test_a_name_that_nobody_said_is_a_fault(summary: str, name: str) -> None:
    fault = find_fault(summary, SAID, None)

    assert fault is not None
    assert name.partition(",")[0] in fault


def test_in_a_language_that_capitalises_nouns_capitals_are_no_names() -> None:
    german = "Wir haben beschlossen, dass der Start der Rakete im Mai ist, weil das Wetter im Winter die Arbeit stört"
    lines = [Line(1, BEGAN, "Jörg", german), Line(2, BEGAN, "Jörg", german)]

    assert find_fault("Entscheidung: Der Start der Rakete ist im Mai.", lines, None) is None
