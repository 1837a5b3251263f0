"""Checks a model's summary against what was said: a summary that fails is not stored."""

import re
from collections.abc import Sequence

from agent.memory.summaries.source import Line
from shared.memory.tokenizer import count_words

MAX_CHARS = 4000
# The share of the summary's words that have to occur in what was said.
LEAST_SHARED = 0.25
WORD = re.compile(r"[^\W\d_][\w’'-]*")  # noqa: RUF001  # the apostrophe of typeset text
BEFORE_SENTENCE = tuple('.!?:;"“(*•–-')  # noqa: RUF001  # a dash that begins a line
# Words that summaries begin sentences with, although nobody said them.
STARTERS = frozenset(
    """
    a about according action additionally after agreed all also although an and another any are as asked at because
    before besides both but by concerning consequently conversation currently decided decision decisions despite
    details discussed discussion each earlier either every facts final finally first following for from further
    furthermore he her here his however i if in initially instead it its key last later main meanwhile moreover most
    name names neither next no none nobody nothing notes now numbers of on once one only open or other others
    otherwise overall participants people person pending question questions regarding remaining second she similarly
    since so some somebody someone still summary that the their them then there these they third this those though
    three thus to together topic topics two under unresolved until unless user users we what when where whether
    which while who whose why with without you your assistant bot agent january february march april may june july
    august september october november december monday tuesday wednesday thursday friday saturday sunday utc ok todo
    """.split()  # noqa: SIM905  # as a list it would be a hundred lines
)
ORDINARY_ENDING = re.compile(r"(ing|ed|ly|tions?|ments?|ness|ities|ally)$")
# The share of capitalised words inside of sentences from which a language counts as one that capitalises nouns.
MANY_CAPITALS = 0.15


def find_fault(summary: str, lines: Sequence[Line], previous: str | None) -> str | None:
    """Return why this is no summary of the lines and the previous summary; None when it may be one."""
    if not summary.strip():
        return "the summary is empty"
    if len(summary) > MAX_CHARS:
        return f"the summary has {len(summary):,} characters, at most {MAX_CHARS:,} are allowed"
    sources = [previous or "", *(f"{line.speaker} {line.content} {line.said_at:%d %B %b %A}" for line in lines)]
    own = set(count_words(summary))
    source_words = set(count_words("\n".join(sources)))
    stems = {word[:4] for word in source_words}
    shared = sum(word in source_words or word[:4] in stems for word in own)
    if not own or shared < LEAST_SHARED * len(own):
        return "the summary has little to do with what was said"
    inner = [word for line in lines for word in re.findall(r"(?<=[^\W\d_] )[^\W\d_]\w{2,}", line.content)]
    if len(inner) >= 20 and sum(word[0].isupper() for word in inner) > MANY_CAPITALS * len(inner):
        # In a language that capitalises nouns, a capital letter says nothing.
        return None
    invented = find_invented_names(summary, sources)
    return f"nobody spoke of {', '.join(invented)}" if invented else None


def find_invented_names(summary: str, sources: Sequence[str]) -> list[str]:
    """Return the names in the summary that occur in no source."""
    stems = {_stem(word) for source in sources for word in WORD.findall(source)}
    names: dict[str, None] = {}
    for match in WORD.finditer(summary):
        word = match.group()
        lowered = word.casefold()
        if not word[0].isupper() or len(word) == 1 or lowered in STARTERS:
            continue
        parts = [word, *(part for part in re.split("['’-]", word) if len(part) > 1)]  # noqa: RUF001
        if any(_stem(part) in stems for part in parts):
            continue
        before = summary[: match.start()]
        ended = before.rstrip()
        begins_sentence = not ended or ended.endswith(BEFORE_SENTENCE) or "\n" in before[len(ended) :]
        if not (begins_sentence and len(word) > 5 and ORDINARY_ENDING.search(lowered)):
            names[word] = None
    return list(names)


def _stem(word: str) -> str:
    folded = word.casefold().replace("’", "'").removesuffix("'s").strip("'-")  # noqa: RUF001
    return folded.removesuffix("s") if len(folded) > 3 else folded
