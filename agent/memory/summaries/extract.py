"""An extractive summary: the sentences with names, numbers, dates, decisions and open questions, word for word.

It is the summary where no model is configured, and it adds to a model's summary what that one has left out.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec import Struct

from agent.memory.summaries.source import Line
from shared.memory.tokenizer import split_words

MAX_CHARS = 2400
MAX_SENTENCE_CHARS = 280
MAX_DETAIL_CHARS = 600
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")  # noqa: RUF001  # Chinese and Japanese marks
NUMBER = re.compile(r"\d[\d.,:/-]*")
DATE = re.compile(
    r"\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b|\b(mon|tues|wednes|thurs|fri|satur|sun)days?\b"
    r"|\b(today|tomorrow|tonight|yesterday|next (week|month|year)|noon|midnight)\b",
    re.IGNORECASE,
)
DECISION = re.compile(
    r"\b(decid\w*|decision\w*|agree[ds]?|confirm\w*|approv\w*|chose\w*|choos\w*|settled|will|shall|must|let's|deadline|due"
    r"|plan(ned|s)?|promis\w*|cancel\w*|moved?|booked|budget|costs?|pays?|owes?|entschied\w*|beschlossen|vereinbart)\b",
    re.IGNORECASE,
)
ABOUT_SELF = re.compile(r"\b(i am|i'm|i was|i have|i've|i live|i work|i like|i need|my|our|we)\b", re.IGNORECASE)
NAME = re.compile(r"(?<=[\w,;:)] )[^\W\d_a-z][\w’'-]+")  # noqa: RUF001  # the apostrophe of typeset text
PREFIX = re.compile(r"^- (?P<speaker>[^:\n]{1,80}): ")
# A sentence counts as a detail from this score on.
DETAIL_SCORE = 3.0
AGENT_FACTOR, OLD_FACTOR = 0.5, 0.9


class _Sentence(Struct, frozen=True):
    position: int
    head: str
    content: str
    score: float


def extract(previous: str | None, lines: Sequence[Line], max_chars: int = MAX_CHARS) -> str:
    """Return the most telling sentences of the previous summary and of these lines, in their order."""
    old = []
    for position, line in enumerate((previous or "").split("\n")):
        if not line.strip():
            continue
        match = PREFIX.match(line)
        head, content = (line[: match.end() - 2], line[match.end() :]) if match else ("", line.strip())
        old.append(_Sentence(position, head, content, score=(_details(content) + 0.5) * OLD_FACTOR))
    new = _sentences(lines, first=len(old))
    return _render(_best([*old, *new], max_chars))


def find_missing(summary: str, lines: Sequence[Line]) -> str:
    """Return the telling sentences of the lines whose numbers, dates or questions the summary does not have."""
    summary_words = set(split_words(summary))
    numbers = {_plain(number) for number in NUMBER.findall(summary)}
    missing = []
    for sentence in _sentences(lines):
        own_numbers = {_plain(number) for number in NUMBER.findall(sentence.content)}
        words = set(split_words(sentence.content)) - own_numbers
        share = len(words & summary_words) / len(words) if words else 1.0
        is_covered = own_numbers <= numbers and share >= (0.3 if own_numbers else 0.5)
        if sentence.score >= DETAIL_SCORE and not is_covered:
            missing.append(sentence)
    return _render(_best(missing, MAX_DETAIL_CHARS))


def _sentences(lines: Sequence[Line], first: int = 0) -> list[_Sentence]:
    sentences: list[_Sentence] = []
    for line in lines:
        head = f"- {line.speaker.replace(':', ' ')} ({line.said_at:%d %b %Y})"
        for part in SENTENCE_END.split(line.content):
            content = " ".join(part.split())[:MAX_SENTENCE_CHARS]
            if not content:
                continue
            score = _details(content) + 1.5 * bool(ABOUT_SELF.search(content))
            if content.endswith(("?", "？")):  # noqa: RUF001  # the full-width question mark
                # A question that was answered is no longer open.
                score = score * 0.5 if line.is_answered else score + 2.0
            elif len(content.split()) < 3 and content.isascii():
                score *= 0.3
            score *= AGENT_FACTOR if line.is_bot else 1.0
            sentences.append(_Sentence(first + len(sentences), head, content=content, score=score))
    return sentences


def _details(sentence: str) -> float:
    score = 2.0 * min(2, len(NUMBER.findall(sentence))) + 1.5 * bool(DATE.search(sentence))
    return score + 1.0 * min(2, len(NAME.findall(sentence))) + 1.5 * bool(DECISION.search(sentence))


def _best(sentences: Sequence[_Sentence], max_chars: int) -> list[_Sentence]:
    # What is said twice counts once.
    unique = list({sentence.content: sentence for sentence in reversed(sentences)}.values())
    telling = [sentence for sentence in unique if sentence.score > 0] or unique
    chosen, chars = [], 0
    # Long sentences must not crowd out several short ones.
    for candidate in sorted(
        telling, key=lambda sentence: (-sentence.score / (60 + len(sentence.content)), -sentence.position)
    ):
        length = len(candidate.content) + len(candidate.head) // 2 + 3
        if chars + length <= max_chars:
            chosen.append(candidate)
            chars += length
    return sorted(chosen, key=lambda sentence: sentence.position)


def _render(sentences: Iterable[_Sentence]) -> str:
    lines = []
    for head, group in groupby(sentences, key=lambda sentence: sentence.head):
        content = " ".join(sentence.content for sentence in group)
        lines.append(f"{head}: {content}" if head else content)
    return "\n".join(lines)


def _plain(number: str) -> str:
    return number.rstrip(".,:/-")
