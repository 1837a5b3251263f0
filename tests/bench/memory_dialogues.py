"""Seeded dialogues with questions whose evidence is known: paraphrased, so that a question shares few words with it.

A topic may be raised by one line and is told by the next; other people tell their own, small talk on the same topics
stands around, and later some facts change.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.bench.memory_topics import TUNED, Corpus

BEGIN = datetime(2025, 1, 6, 9, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Line:
    """A message of a dialogue."""

    speaker: str
    text: str
    said_at: datetime


@dataclass(slots=True)
class Question:
    """A question and the lines that answer it, by their positions; `outdated` answer it no longer."""

    text: str
    evidence: set[int]
    outdated: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Lines in one place, and questions about them."""

    lines: tuple[Line, ...]
    questions: tuple[Question, ...]


# How often which way of asking is taken: two share hardly a word with what was told, the third shares some.
ASKED = (2, 1, 3)
CHATTER = (
    "Good morning everyone, the {thing} is {state} again.",
    "Ha, exactly, like the {thing} yesterday.",
    "See you later then, I have to look after the {thing}.",
    "Thanks, that helped with the {thing}.",
    "No idea, sorry, ask them about the {thing}.",
    "The {thing} looks {state} to me.",
    "Let me check the {thing} and come back to you.",
    "That sounds {state}, what about the {thing}?",
)
THINGS = (
    "printer",
    "projector",
    "ticket",
    "window",
    "server",
    "fridge",
    "meeting",
    "password",
    "lamp",
    "heating",
    "router",
    "invoice",
    "lift",
    "keyboard",
    "door",
    "schedule",
    "backup",
    "parcel",
    "microphone",
    "whiteboard",
    "alarm",
    "kettle",
)
STATES = ("broken", "fine", "late", "loud", "empty", "cold", "new", "slow", "open", "missing", "great", "odd")


def make_dialogue(seed: int, *, lines: int = 600, corpus: Corpus = TUNED) -> Dialogue:
    """Return a dialogue of about so many lines, the same for the same seed."""
    chosen = random.Random(seed)  # noqa: S311  # no secret
    return _Writer(chosen, corpus).write(lines)


class _Writer:
    def __init__(self, chosen: random.Random, corpus: Corpus) -> None:
        self._chosen = chosen
        self._corpus = corpus
        self._people = corpus.people
        self._lines: list[Line] = []
        self._now = BEGIN
        self._facts: dict[tuple[str, int], Question] = {}
        self._small_talk = [text for topic in corpus.topics for text in topic.small_talk]
        chosen.shuffle(self._small_talk)

    def write(self, count: int) -> Dialogue:
        topics = range(len(self._corpus.topics))
        every = [(who, topic) for who in self._people for topic in self._chosen.sample(topics, len(topics) // 2)]
        self._chosen.shuffle(every)
        # A quarter of the facts change later on.
        plan = every + self._chosen.sample(every, len(every) // 4)
        small_talk = max(0, count - 2 * len(plan)) // len(plan)
        for who, topic in plan:
            self._tell(who, topic)
            for _ in range(self._chosen.randint(0, 2 * small_talk)):
                self._chat()
            if self._chosen.random() < 0.3:
                self._now += timedelta(days=self._chosen.randint(1, 9))
        return Dialogue(tuple(self._lines), tuple(self._facts.values()))

    def _tell(self, who: str, number: int) -> None:
        topic, before = self._corpus.topics[number], self._facts.get((who, number))
        other = self._chosen.choice([person for person in self._people if person != who])
        if self._chosen.random() < self._corpus.raised_share:
            raised = self._chosen.choice(topic.raised)
            # People often say whom they ask.
            self._say(other, f"{who}, {raised[0].lower()}{raised[1:]}" if self._chosen.random() < 0.5 else raised)
        value = self._chosen.choice([value for value in topic.values if not before or value not in before.text])
        self._say(who, self._chosen.choice(topic.told).format(value=value))
        evidence = {len(self._lines) - 1}
        [text] = self._chosen.choices(topic.asked, ASKED)
        text = text.format(who=who)
        if self._chosen.random() < 0.3:
            text += f" It was in {self._now:%B}."
        outdated = before.evidence | before.outdated if before else set()
        self._facts[who, number] = Question(text, evidence, outdated)

    def _chat(self) -> None:
        text = self._chosen.choice(CHATTER).format(thing=self._chosen.choice(THINGS), state=self._chosen.choice(STATES))
        if self._small_talk and self._chosen.random() < 0.2:
            text = self._small_talk.pop()
        speaker, other = self._chosen.sample(self._people, 2)
        self._say(speaker, f"{other}, {text[0].lower()}{text[1:]}" if self._chosen.random() < 0.3 else text)

    def _say(self, speaker: str, text: str) -> None:
        self._now += timedelta(minutes=self._chosen.randint(1, 40))
        self._lines.append(Line(speaker, text, self._now))


def windows(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the text of each line with its two neighbours."""
    for at in range(len(lines)):
        yield "\n".join(line.text for line in lines[max(0, at - 1) : at + 2])
