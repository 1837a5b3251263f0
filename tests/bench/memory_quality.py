"""How often recall finds the line that answers a question, beside plain BM25 over the same lines."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

from sqlalchemy import text

from shared.db.database import Database
from shared.memory.memories import Memories, NewMemory, Origin
from shared.memory.tokenizer import split_words
from shared.messages import Place
from tests.bench.memory_dialogues import Dialogue, make_dialogue, windows
from tests.bench.memory_topics import TUNED, Corpus

SATURATION, LENGTH = 1.2, 0.75
DEEP = 10


@dataclass(slots=True)
class Quality:
    """Counts over all questions; `shown` counts evidence among the first five and their neighbours."""

    questions: int = 0
    any_5: int = 0
    any_10: int = 0
    shown: int = 0
    baseline_5: int = 0
    baseline_10: int = 0
    outdated_first: int = 0
    changed: int = 0
    leaks: int = 0
    words: int = 0

    def share(self, count: int) -> float:
        return count / max(1, self.questions)


class PlainBM25:
    """BM25 over each text plus BM25 over its window, each scaled to its best, and nothing else."""

    def __init__(self, dialogue: Dialogue, stem: Callable[[str], str]) -> None:
        self._stem = stem
        self._turns = _Scores([self._count(line.text) for line in dialogue.lines])
        self._windows = _Scores([self._count(window) for window in windows(dialogue.lines)])

    def rank(self, question: str) -> list[int]:
        """Return the positions of the best lines."""
        terms = set(self._count(question))
        turn, window = self._turns.score(terms), self._windows.score(terms)
        total = [a + b for a, b in zip(_scaled(turn), _scaled(window), strict=True)]
        return sorted((at for at, score in enumerate(total) if score > 0), key=lambda at: (-total[at], -at))

    def _count(self, line: str) -> Counter[str]:
        return Counter(self._stem(word) for word in split_words(line))


class _Scores:
    def __init__(self, documents: Sequence[Counter[str]]) -> None:
        self._documents = documents
        self._mean = sum(document.total() for document in documents) / max(1, len(documents))
        self._df = Counter(term for document in documents for term in document)

    def score(self, terms: set[str]) -> list[float]:
        count = len(self._documents)
        idf = {term: log(1 + (count - self._df[term] + 0.5) / (self._df[term] + 0.5)) for term in terms}
        return [
            sum(
                idf[term] * (SATURATION + 1) * document[term]
                / (document[term] + SATURATION * (1 - LENGTH + LENGTH * document.total() / self._mean))
                for term in terms & document.keys()
            )
            for document in self._documents
        ]  # fmt: skip


def _scaled(scores: Sequence[float]) -> list[float]:
    most = max(scores, default=0) or 1
    return [score / most for score in scores]


async def measure_quality(
    memories: Memories, database: Database, *, seeds: Sequence[int], lines: int, corpus: Corpus = TUNED
) -> Quality:
    """Store a dialogue of each seed in a place of its own, ask its questions and compare with plain BM25.

    The dialogues take turns in being a direct message and a channel; nothing of another one may be recalled.
    """
    quality = Quality()
    for seed in seeds:
        dialogue = make_dialogue(seed, lines=lines, corpus=corpus)
        place = (
            Place("bench", None, f"direct-{corpus.name}-{seed}", is_direct=True)
            if seed % 2 == 0
            else Place("bench", f"server-{seed % 3}", f"channel-{corpus.name}-{seed}")
        )
        await _measure(memories, database, dialogue, place=place, quality=quality)
    return quality


async def _embed(memories: Memories, database: Database) -> None:
    # A worker waits some seconds, because neighbours may still come.
    async with database.owner() as owner:
        await owner.execute("UPDATE memories SET vectors_due_at = now() WHERE vectors_due_at IS NOT NULL")
    while await memories.fill_vectors():
        pass


async def _measure(
    memories: Memories, database: Database, dialogue: Dialogue, *, place: Place, quality: Quality
) -> None:
    user_id, conversation_id = await _prepare(database, place)
    records = await memories.add(
        [
            NewMemory(user_id, Origin(place, conversation_id), line.text, said_at=line.said_at, speaker=line.speaker)
            for line in dialogue.lines
        ]
    )
    await _embed(memories, database)
    position = {record.memory_id: at for at, record in enumerate(records) if record is not None}
    baseline = PlainBM25(dialogue, await _stems(database, dialogue))
    memory = memories.of_user(user_id, place, conversation_id)
    for question in dialogue.questions:
        recalled = await memory.recall(question.text, DEEP)
        positions = [position.get(hit.id, -1) for hit in recalled]
        neighbours = {
            neighbour.id for hit in recalled[:5] for neighbour in (hit.before, hit.after) if neighbour is not None
        }
        plain = baseline.rank(question.text)
        quality.questions += 1
        quality.leaks += positions.count(-1)
        quality.any_5 += bool(question.evidence & set(positions[:5]))
        quality.any_10 += bool(question.evidence & set(positions))
        quality.shown += bool(
            question.evidence & ({*positions[:5]} | {position.get(neighbour, -1) for neighbour in neighbours})
        )
        quality.baseline_5 += bool(question.evidence & set(plain[:5]))
        quality.baseline_10 += bool(question.evidence & set(plain[:DEEP]))
        quality.changed += bool(question.outdated)
        first = next((at for at in positions if at in question.evidence | question.outdated), None)
        quality.outdated_first += first in question.outdated
        texts = [hit.content for hit in recalled[:5]]
        texts += [
            neighbour.content for hit in recalled[:5] for neighbour in (hit.before, hit.after) if neighbour is not None
        ]
        quality.words += sum(len(text.split()) for text in texts)


async def _prepare(database: Database, place: Place) -> tuple[int, int]:
    async with database.transaction() as session:
        user = await session.execute(text("INSERT INTO users (has_memories) VALUES (true) RETURNING id"))
        result = await session.execute(
            text(
                "INSERT INTO conversations (platform, platform_server_id, platform_channel_id, is_direct)"
                " VALUES (:platform, :server, :channel, :is_direct) RETURNING id"
            ),
            {name: getattr(place, name) for name in ("platform", "server", "channel", "is_direct")},
        )
        return user.scalar_one(), int(result.scalar_one())


async def _stems(database: Database, dialogue: Dialogue) -> Callable[[str], str]:
    texts = [*(line.text for line in dialogue.lines), *(question.text for question in dialogue.questions)]
    words = sorted({word for sentence in texts for word in split_words(sentence)})
    async with database.transaction() as session:
        rows = await session.execute(
            text(
                "SELECT word, coalesce((ts_lexize('english_stem', word))[1], word)"
                " FROM unnest(CAST(:words AS text[])) AS word"
            ),
            {"words": words},
        )
        stems = {word: str(stem) for word, stem in rows}
    return lambda word: stems.get(word, word)
