"""Names chats of the page after their first answer; what their person calls them comes before it.

A claim of a chat is that of its summary: one worker at a time reads it and pays for it. Without a title the page shows
the beginning of the first message.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from agent.llm.completions import ModelRequest
from agent.llm.router import Router
from agent.memory.summaries import claims
from agent.memory.summaries.claims import Claim
from agent.memory.summaries.model import ModelAnswer, SummaryModel
from agent.memory.summaries.source import Source, read_source, to_transcript
from agent.prompts import prompts
from shared.clock import Clock
from shared.db.database import Database
from shared.db.statements import load_statements
from shared.log import get_logger
from shared.messages import Place, Sampling
from shared.text import abbreviate, cut

statements = load_statements(__file__)

WIDTH = 4
MAX_TITLE_CHARS = 60
# Of what was said first: a turn at least, of each message its beginning, and of a turn with many the first ones.
SOURCE_TOKENS, LINE_CHARS, TRANSCRIPT_CHARS = 1000, 1500, 6000
# More than a title has: some models think first.
MAX_OUTPUT_TOKENS = 500
# Some providers do not keep to that, and the patterns below take time by the square of a line.
MAX_ANSWER_CHARS = 2000
LINK = re.compile(r"!?\[([^\]\n]*)\]\((?:[^()\n]|\([^()\n]*\))*+\)")
# What makes a heading, a quotation or an entry of a list, and what surrounds words.
LINE_MARK = re.compile(r"^(?:[#>*+\-|]+\s+|#+|\d{1,3}[.)]\s+)+")
MARKUP = re.compile(r"[*`~|<>]+|(?<!\w)_+|_+(?!\w)")
LABEL = re.compile(r"^(?:title|titel|titre|t[íi]tulo|titolo)\s*:\s*", re.IGNORECASE)
QUOTATION_MARKS = "\"'“”„‟«»‹›‘’‚「」『』"  # noqa: RUF001  # those of several languages
# These join the letters of some scripts, and the parts of emoji.
JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"

log = get_logger()


class TitleWriter:
    """Names the chats that are due; each call of `run` is one round. Several processes may do so at once.

    `tell` tells the windows of whom a chat belongs to that it has a title.
    """

    def __init__(self, database: Database, router: Router, clock: Clock, *, tell: Callable[[Place], None]) -> None:
        self._database, self._router, self._tell = database, router, tell
        self._model = SummaryModel(database, router, clock, purpose="title")

    async def run(self) -> int:
        """Name all chats that are due; return how many were looked at."""
        count = 0
        while model := await self._router.find_summary_model():
            async with self._database.statement() as session:
                claimed = claims.to_claims((await session.execute(statements.claim_titles, {"limit": WIDTH})).all())
            if not claimed:
                break
            count += len(claimed)
            await claims.work_on(claimed, partial(self._name, model=model))
        return count

    async def _name(self, claimed: Claim, *, model: str) -> None:
        await self._model.charge_estimate(claimed)
        async with self._database.statement() as session:
            source = await read_source(session, claimed, SOURCE_TOKENS)
        if not source.lines:
            await self._fail(claimed, ModelAnswer(None), "there is no text")
            return
        answer = await self._model.ask(claimed, to_request(source, model=model), self._fail)
        title = "" if answer.completion is None else to_title(answer.completion.text)
        if answer.completion is None or answer.completion.stop == "max_tokens" or not title:
            await self._fail(claimed, answer, answer.fault or "the answer is no title")
            return
        async with self._database.transaction() as session:
            await claims.lock_turns(session, [source.last_turn_id])
            await claims.pay(session, claimed, answer.paid)
            parameters = claimed.key | {"turn_id": source.last_turn_id, "title": title}
            is_stored = bool((await session.execute(statements.store_title, parameters)).one().is_stored)
        if is_stored:
            self._tell(claimed.place)
        log.info("chat_named", conversation=claimed.id, model=answer.completion.model, is_stored=is_stored)

    async def _fail(self, claimed: Claim, answer: ModelAnswer, fault: str) -> None:
        async with self._database.transaction() as session:
            await claims.pay(session, claimed, answer.paid)
            await session.execute(statements.store_title, claimed.key | {"turn_id": None, "title": None})
        log.warning("title_failed", conversation=claimed.id, cause=fault)


def to_request(source: Source, *, model: str) -> ModelRequest:
    """Return the request for the title of a chat that begins like this."""
    texts = prompts().summary
    lines = [replace(line, content=cut(line.content, LINE_CHARS)) for line in source.lines]
    transcript = cut(to_transcript(lines), TRANSCRIPT_CHARS)
    return ModelRequest(
        messages=(
            {"role": "system", "content": texts.title},
            {"role": "user", "content": texts.transcript.format(transcript=transcript)},
        ),
        tools=(),
        max_tokens=MAX_OUTPUT_TOKENS,
        models=(model,),
        sampling=Sampling(temperature=0.0),
    )


def to_title(answer: str) -> str:
    """Return the title in a model's answer as plain text of one line; empty if there is none."""
    for line in answer[:MAX_ANSWER_CHARS].splitlines():
        plain = LINK.sub(r"\1", line)
        plain = MARKUP.sub("", LINE_MARK.sub("", plain.strip()))
        # Neither control characters nor what is invisible, or turns the direction of letters.
        plain = "".join(char for char in plain if char in JOINERS or not unicodedata.category(char).startswith("C"))
        plain = LABEL.sub("", " ".join(plain.split())).strip(QUOTATION_MARKS + " ").removesuffix(".").strip()
        if any(map(str.isalnum, plain)):
            return abbreviate(plain, MAX_TITLE_CHARS)
    return ""
