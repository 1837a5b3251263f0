"""Seeded dialogues with questions whose evidence is known: paraphrased, so that a question shares few words with it.

Each topic is raised by one line and told by the next; other people tell their own, small talk on the same topics stands
around, and later some facts change.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

PEOPLE = ("Ann", "Bob", "Clara", "Dmitri", "Elif", "Farid")
BEGIN = datetime(2025, 1, 6, 9, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Topic:
    """What is said of a topic: the line before, ways to tell it, ways to ask for it, and what it can be."""

    raised: Sequence[str]
    told: Sequence[str]
    asked: Sequence[str]
    values: Sequence[str]
    small_talk: Sequence[str]


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


TOPICS = (
    Topic(
        ("Any news about the new dog?", "How is the little one settling in?"),
        ("We finally settled on {value}, it suits the puppy.", "Everyone calls the puppy {value} by now."),
        ("What did {who} name the dog?", "What is {who}'s pet called?", "What did {who} settle on for the puppy?"),
        ("Biscuit", "Rufus", "Momo", "Pepper", "Juno", "Waffle"),
        ("The puppy chewed a shoe again.", "A dog needs a long walk in this weather.", "My cat would hate a puppy."),
    ),
    Topic(
        ("Where did you go in the end for the holidays?", "So, did you book the trip?"),
        ("It was {value}, ten days with rain on nine of them.", "We took the night train down to {value}."),
        (
            "Where did {who} travel on vacation?",
            "Which city did {who} visit?",
            "Where did {who} take the night train for ten days?",
        ),
        ("Lisbon", "Tromsø", "Kyoto", "Palermo", "Tallinn", "Porto"),
        ("I need a break, any beach will do.", "Flights are so expensive this year.", "We stayed at home this summer."),
    ),
    Topic(
        ("Can we order for everybody? Anything you can't have?", "I will cook on Friday, tell me about restrictions."),
        ("Please leave out {value}, I swell up like a balloon.", "No {value} for me, the doctor was very clear."),
        (
            "What is {who} allergic to?",
            "Which food must {who} avoid?",
            "Why does {who} swell up, what should be left out of the food?",
        ),
        ("peanuts", "shellfish", "sesame", "walnuts", "kiwi", "celery"),
        ("I could eat pizza every day.", "The new canteen is not bad at all.", "Who ate my yoghurt?"),
    ),
    Topic(
        ("Did you hear back about the position?", "How did the interview go?"),
        ("They took me, I start as a {value} next month.", "Signed the contract: {value}, full time."),
        ("What is {who}'s job now?", "What does {who} work as?", "What contract did {who} sign, starting next month?"),
        ("nurse", "welder", "translator", "surveyor", "baker", "midwife"),
        ("Mondays should be shorter.", "My boss sent an email at midnight.", "Interviews make me nervous."),
    ),
    Topic(
        ("Your birthday must be soon?", "We should plan a cake, when is it?"),
        ("It's on the {value}, but no surprises please.", "Mark the {value}, I turn thirty."),
        (
            "When was {who} born, which day?",
            "On which date does {who} celebrate?",
            "Which day should we mark, when {who} turns thirty?",
        ),
        ("third of May", "ninth of June", "first of April", "last of August", "tenth of October", "second of March"),
        ("I forgot to buy candles.", "Thirty is only a number.", "The cake last time was too sweet."),
    ),
    Topic(
        ("What are you listening to these days?", "You practise a lot lately."),
        ("I am learning the {value}, my neighbours suffer.", "Got a second-hand {value} from an uncle."),
        (
            "Which instrument does {who} play?",
            "What music does {who} make?",
            "What is {who} learning that makes the neighbours suffer?",
        ),
        ("cello", "oboe", "banjo", "accordion", "trumpet", "harp"),
        ("That concert was far too loud.", "I can't read notes at all.", "My headphones broke."),
    ),
    Topic(
        ("How do you get to the office now?", "Still no car?"),
        ("I bought a {value} bicycle, half an hour each way.", "The {value} bike was a bargain, I cycle in."),
        ("What colour is {who}'s bike?", "How does {who} commute?", "Which bicycle did {who} buy as a bargain?"),
        ("turquoise", "crimson", "yellow", "silver", "violet", "orange"),
        ("The bus was late again.", "Parking costs a fortune downtown.", "It snowed on my way in."),
    ),
    Topic(
        ("And the flat, did you move already?", "How is the new place?"),
        ("We live in {value} now, third floor without a lift.", "The boxes are unpacked, {value} is very quiet."),
        (
            "Where is {who}'s home?",
            "In which district did {who} settle?",
            "Where does {who} live now, on the third floor?",
        ),
        ("Altona", "Belém", "Camden", "Kreuzberg", "Harlem", "Trastevere"),
        ("Moving is the worst.", "My landlord raised the rent.", "I painted the kitchen on Sunday."),
    ),
    Topic(
        ("Which book are you on?", "Anything good to read?"),
        ("Halfway through {value}, I can't put it down.", "Finished {value} at three in the morning."),
        (
            "What novel did {who} read?",
            "Which author's story kept {who} awake?",
            "What was {who} halfway through and could not put down?",
        ),
        ("Middlemarch", "Solaris", "Beloved", "Dracula", "Persuasion", "Ulysses"),
        ("I only read on the train.", "The library closes at six.", "I fall asleep after two pages."),
    ),
    Topic(
        ("When is the deadline for the grant?", "Do we have a date for the submission?"),
        ("It has to be in by the {value}, no extension.", "They moved it: {value} at noon, sharp."),
        (
            "By when must {who} hand in the application?",
            "What is the due date that {who} mentioned?",
            "Which deadline did they move, says {who}?",
        ),
        ("14th", "22nd", "27th", "18th", "16th", "29th"),
        ("I hate forms with boxes.", "The printer is out of toner.", "Somebody must check the budget table."),
    ),
    Topic(
        ("How is the knee?", "You were limping yesterday."),
        ("The surgeon said {value} weeks without sports.", "It's torn, {value} weeks of rest."),
        (
            "How long is {who} injured?",
            "For what time can't {who} train?",
            "How many weeks of rest did the surgeon give {who}?",
        ),
        ("six", "eight", "ten", "twelve", "nine", "seven"),
        ("I should stretch more.", "The gym was full at seven.", "My back hurts from this chair."),
    ),
    Topic(
        ("Who helps with the garden?", "What will you plant this year?"),
        ("Mostly {value}, the soil is good for them.", "I put in forty {value} along the fence."),
        (
            "What does {who} grow?",
            "Which vegetables or flowers has {who} outside?",
            "What did {who} put in along the fence?",
        ),
        ("tulips", "leeks", "dahlias", "pumpkins", "radishes", "peonies"),
        ("The snails ate everything.", "It has not rained for weeks.", "I killed a cactus once."),
    ),
)
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


def make_dialogue(seed: int, *, lines: int = 600, people: Sequence[str] = PEOPLE) -> Dialogue:
    """Return a dialogue of about so many lines, the same for the same seed."""
    chosen = random.Random(seed)  # noqa: S311  # no secret
    return _Writer(chosen, people).write(lines)


class _Writer:
    def __init__(self, chosen: random.Random, people: Sequence[str]) -> None:
        self._chosen = chosen
        self._people = people
        self._lines: list[Line] = []
        self._now = BEGIN
        self._facts: dict[tuple[str, int], Question] = {}
        self._small_talk = [text for topic in TOPICS for text in topic.small_talk]
        chosen.shuffle(self._small_talk)

    def write(self, count: int) -> Dialogue:
        topics = range(len(TOPICS))
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
        topic, before = TOPICS[number], self._facts.get((who, number))
        other = self._chosen.choice([each for each in self._people if each != who])
        raised = self._chosen.choice(topic.raised)
        # People often say whom they ask.
        self._say(other, f"{who}, {raised[0].lower()}{raised[1:]}" if self._chosen.random() < 0.5 else raised)
        value = self._chosen.choice([each for each in topic.values if not before or each not in before.text])
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
        yield "\n".join(each.text for each in lines[max(0, at - 1) : at + 2])
