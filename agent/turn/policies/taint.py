"""Taint tracking: guards against prompt injection that could make the model leak private data or act on its own.

A call that stays with the person who asks needs no approval. Once the prompt contains untrusted text, a call that
changes something beyond that person needs it, and so does one that only sends words out, if the prompt contains private
data, too. No approval is needed where all that decides the effect of a call was said by the person, or stands in data
that nobody else could write.

The whole prompt counts, including earlier turns:

- Untrusted: results of tools marked `reads_untrusted`, results that say `"untrusted": true`, recordings that may be
  somebody else's speech, files and messages of others, pastes in the user's own messages, names of the place and of
  roles that could be read as more than a name, what was written down in a turn that had read
  such text (memories, jobs), and everything that an agent of another installation writes.
- Private: results of tools marked `reads_private`, and in a direct message the recalled memories.
- Neither: what the user has typed, and calls that have failed or found nothing.

Taint passes through delegation: a child turn starts with the taint of the turn that wrote its task, and what the child
turn has read counts for the turn that receives its answer.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent.journal.files import FILES_HEADING, FROM_OTHERS
from agent.journal.pastes import LONG_CHARS, MARKS, has_pastes, without_pastes
from agent.journal.steps import PastStep, Step, TurnLog
from agent.outflow.hosts import hosts_in
from agent.outflow.reply import Outflow, squeeze
from agent.people.participants import Participants
from agent.prompts import prompts
from agent.tools.approvals import request_for_taint
from agent.tools.calls import PendingCall, Taint, parse_arguments
from agent.tools.outcomes import Failed, NeedsApproval
from agent.tools.toolbox import Toolbox
from agent.turn.context.builder import shows_foreign_text, shows_recordings
from agent.turn.policies.own_words import OwnWords, is_telling, list_deciding
from shared.db.database import Database, DatabaseLost
from shared.db.statements import load_statements
from shared.errors import ToolError
from shared.messages import AGENT_ADAPTERS, IncomingMessage
from shared.text import is_plain_name
from shared.tools import Tool

statements = load_statements(__file__)

LAST_ID = 2**63 - 1
# What a result holds, as JSON, that counts as untrusted although its tool does not always read such text.
UNTRUSTED = '"untrusted": true'
# How many of the person's last messages count as what they have said: an older order must not be given again.
RECENT_MESSAGES = 3
# Longer names in a result are text.
MAX_KEY_CHARS = 32


class TaintGuard:
    """Requires approval for calls that untrusted text may have caused, and that affect more than the asker.

    Everything recorded before the calls are started counts, because the model may have seen it when it wrote them. A
    call that continues says whether strangers may have written its arguments.
    """

    def __init__(self, taint: "TurnTaint", toolbox: Toolbox, log: TurnLog) -> None:
        self._taint, self._toolbox, self._log = taint, toolbox, log
        self._known: tuple[int, Taint] | None = None

    async def check(self, call: PendingCall) -> PendingCall | NeedsApproval | Failed:
        """Stop a call that needs approval. A call with invalid arguments continues: the toolbox rejects it."""
        tool = self._toolbox.resolve(call)
        if tool is None or call.agreed_to is not None:
            return call
        is_acting = tool.acts_on(call.arguments)
        if tool.read_only and not is_acting:
            return call
        # Computed once for all calls that are started together.
        if self._known is None or self._known[0] != len(self._log.steps):
            self._known = (len(self._log.steps), await self._taint.find(self._log))
        taint = self._known[1]
        if Taint.UNTRUSTED not in taint or self._taint.is_said(call, tool, self._log):
            return call
        # To read tells others at most what is private here; a task for another agent is in its words alone, too.
        only_tells = tool.read_only or tool.resumable or tool.confirms
        if not is_acting or (only_tells and Taint.PRIVATE not in taint):
            return replace(call, author="stranger")
        # One question, one yes: a tool that asks the person itself asks with all that it would tell others.
        if tool.confirms:
            return replace(call, author="stranger", shows_arguments=True)
        try:
            parse_arguments(tool, call.arguments)
        except ToolError:
            return call
        return request_for_taint(call)


class TurnTaint(Struct):
    """Computes the taint of a turn's prompt; `shown` is the taint of its images, memories and delegated task.

    `said`: what the person has typed, where the turn's message is a task that a model has written; None elsewhere.
    """

    database: Database
    toolbox: Toolbox
    participants: Participants
    message: IncomingMessage
    history: Sequence[PastStep]
    shown: Taint
    own_memories: Sequence[str] = ()
    said: Sequence[str] | None = None

    def show(self, taint: Taint, own_memories: Sequence[str]) -> None:
        """Add the taint of what the prompt shows besides messages and results, and the memories of the user's words."""
        self.shown |= taint
        self.own_memories = own_memories

    def is_said(self, call: PendingCall, tool: Tool, log: TurnLog) -> bool:
        """Return whether the user said all that decides the effect of a call, or trusted data does.

        What a tool only repeats from the arguments of an earlier call is no such data. A call that changes something
        without any telling argument is decided by its tool alone, which the model has chosen.
        """
        values = list(list_deciding(call.arguments, tool.schema["function"]["parameters"]))
        if not any(map(is_telling, values)):
            return tool.read_only and not values
        own = OwnWords([*self._user_texts()[: 1 + RECENT_MESSAGES], *self.own_memories])
        values = [value for value in values if not own.say(value)]
        if not values:
            return True
        steps = [*(past.step for past in self.history), *log.steps]
        calls = [step for step in steps if step.role == "tool_call"]
        texts = []
        for result in self._trusted_results(steps):
            source = self.toolbox.find(result.tool.name)
            if source is not None and source.computes:
                # A sum is chosen by its terms: nobody but the user can have chosen these.
                rules = source.schema["function"]["parameters"]
                origins = [step for step in calls if step.tool.call_id == result.tool.call_id]
                terms = (term for step in origins for term in list_deciding(step.value, rules))
                if not origins or not all(map(own.say, terms)):
                    continue
            texts.append("\n".join(_texts_in(result.value)))
        trusted = OwnWords(texts)
        spelled = OwnWords("\n".join(_texts_in(step.value)) for step in calls if step.tool.call_id != call.id)
        return all(trusted.say(value) and not spelled.say(value) for value in values)

    async def restrict(self, outflow: Outflow, log: TurnLog, instructions: str) -> None:
        """From now on, let the turn link only to hosts that its trusted texts mention, if its prompt is tainted."""
        try:
            is_whole = await self.find(log) is Taint.WHOLE
        except DatabaseLost:
            # The text is ready to be sent, and what earlier turns have read cannot be found out now.
            is_whole = True
        if is_whole:
            outflow.restrict(self.trusted_hosts(log) | hosts_in(instructions))

    def trusted_hosts(self, log: TurnLog) -> set[str]:
        """Return the hosts that were named by the persona, by the user, or by tools whose results are trusted.

        Hosts that the arguments of calls spell do not count: a tool may repeat or join them in its result (`evil` and
        `md`). Private results do not count either, because the model may have written them, as it writes memories.
        """
        steps = [*(past.step for past in self.history), *log.steps]
        hosts = set(hosts_in("\n".join(self._user_texts())))
        trusted = self._trusted_results(steps)
        in_results = {host for step in trusted for host in hosts_in("\n".join(_texts_in(step.value)))}
        arguments = "\n".join(text for step in steps if step.role == "tool_call" for text in _texts_in(step.value))
        spelled = squeeze(arguments)
        for host in in_results:
            name, _, last = host.rpartition(".")
            # Encoded letters cannot be compared, and browsers read numbers such as 3.5 as addresses.
            if not (last.isdigit() or "xn--" in host or squeeze(name) in spelled):
                hosts.add(host)
        return hosts

    def _trusted_results(self, steps: Iterable[Step]) -> list[Step]:
        results = []
        for step in steps:
            if step.role != "tool_result" or step.tool.outcome not in (None, "result"):
                continue
            tool = self.toolbox.find(step.tool.name)
            if tool is not None and not (tool.resumable or tool.reads_untrusted or tool.reads_private):
                results.append(step)
        return results

    def list_said(self) -> list[str]:
        """Return what the person has typed, the newest first, for a turn to which this one gives a task."""
        return self._user_texts()[1:]

    def _user_texts(self) -> list[str]:
        prompt = self.participants.persona.system_prompt
        if self.said is not None:
            return [prompt, *self.said]
        if self.message.adapter in AGENT_ADAPTERS:
            return [prompt]
        user_id = self.participants.user.id
        own = [past.step.content for past in self.history if past.step.role == "user" and past.user_id == user_id]
        return [prompt, *map(without_additions, (self.message.content, *reversed(own)))]

    async def find(self, log: TurnLog) -> Taint:
        """Return the taint of the prompt at this moment; queries the database only for summaries and child turns."""
        taint = self.find_shown(log)
        turn_ids = [past_step.turn_id for past_step in self.history if self._is_turn(past_step.step)]
        turn_ids += [log.turn_id for step in log.steps if self._is_turn(step)]
        if taint is not Taint.WHOLE and turn_ids:
            taint |= await self._of_child_turns(min(turn_ids), LAST_ID)
        conversation = self.participants.conversation
        if taint is Taint.WHOLE or not conversation.summary:
            return taint
        parameters = {
            "user_id": self.participants.user.id,
            "conversation_id": conversation.id,
            "window": conversation.window_turn_id,
            "is_direct": conversation.place.is_direct,
            "recording": prompts().voice.recording,
            "job": prompts().schedules.of_others,
            "forwarded": FROM_OTHERS,
            "long": LONG_CHARS,
            "marks": MARKS,
            "untrusted": UNTRUSTED,
        }
        async with self.database.statement() as session:
            row = (await session.execute(statements.list_tools_of_summary, parameters)).one()
        names = [*(row.tools or ()), *filter(self._is_foreign, row.failed or ())]
        taint |= self._of_results(names) | to_taint(untrusted=row.has_others)
        tools = [self.toolbox.find(str(name)) for name in names]
        if any(tool is not None and tool.resumable for tool in tools):
            taint |= await self._of_child_turns(0, conversation.window_turn_id)
        return taint

    def find_shown(self, log: TurnLog) -> Taint:
        """Return the taint of all that the prompt shows itself: without summaries and the turns of agents."""
        steps = [*(past.step for past in self.history), *log.steps]
        results = [step for step in steps if step.role == "tool_result"]
        # A call that failed brought nothing into the prompt but an error, which may be somebody else's text, too.
        failed = [step.tool.name for step in results if step.tool.outcome == "failed"]
        names = set(filter(self._is_foreign, failed))
        for step in results:
            name = step.tool.name
            matters = step.tool.outcome in (None, "result") and name not in names and self._of_results([name])
            # Looked at last, because to read a result takes its time: as a rule one of each tool decides.
            if matters and not _is_empty(step.value):
                names.add(name)
        taint = self.shown | self._of_results(names)
        platform_context, heading = self.message.platform_context, prompts().turn.earlier_heading
        messages = [past_step for past_step in self.history if past_step.step.role == "user"]
        contents = [self.message.content, *(message.step.content for message in messages)]
        shows_others = (
            # Such a message was written by a model of another installation, whichever user it names.
            self.message.adapter in AGENT_ADAPTERS
            or any(UNTRUSTED in step.content or shows_recordings(step.content) for step in results)
            or any(message.user_id != self.participants.user.id for message in messages)
            # Earlier messages of other users are part of a message's content, after a heading.
            or any(
                heading in content or shows_foreign_text(content) or has_pastes(_to_typed(content))
                for content in contents
            )
            or any(file.author == "stranger" for file in self.message.attachments)
            or bool(platform_context.earlier or platform_context.topic or platform_context.thread_title)
            or not all(map(is_plain_name, platform_context.names))
        )
        return taint | to_taint(untrusted=shows_others)

    def _is_foreign(self, name: str) -> bool:
        tool = self.toolbox.find(name)
        return tool is not None and tool.is_foreign

    def _is_turn(self, step: Step) -> bool:
        if step.role not in ("tool_call", "tool_result"):
            return False
        tool = self.toolbox.find(step.tool.name)
        return tool is not None and tool.resumable

    def _of_results(self, names: Iterable[str | None]) -> Taint:
        # A tool that no longer exists counts as untrusted. The taint of delegations is read from their child turns.
        taint = Taint.NONE
        for name in set(names):
            tool = self.toolbox.find(str(name))
            if tool is None:
                taint |= Taint.UNTRUSTED
            elif not tool.resumable:
                taint |= to_taint(untrusted=tool.reads_untrusted, private=tool.reads_private)
        return taint

    async def _of_child_turns(self, first: int, before: int) -> Taint:
        is_direct = self.participants.conversation.place.is_direct
        parameters = {
            "user_id": self.participants.user.id,
            "conversation_id": self.participants.conversation.id,
            "first": first,
            "before": before,
            "is_direct": is_direct,
            "untrusted": UNTRUSTED,
        }
        async with self.database.statement() as session:
            row = (await session.execute(statements.list_tools_of_child_turns, parameters)).one()
        # No journal records which of the user's memories a child turn was shown.
        taint = to_taint(untrusted=row.has_strangers, private=is_direct and self.participants.user.has_memories)
        return self._of_results([*(row.tools or ()), *filter(self._is_foreign, row.failed or ())]) | taint


def to_taint(*, untrusted: bool = False, private: bool = False) -> Taint:
    """Return the taint of a text that is untrusted, private, both or neither."""
    return (Taint.UNTRUSTED if untrusted else Taint.NONE) | (Taint.PRIVATE if private else Taint.NONE)


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        # Whoever writes a result may choose its keys.
        return all(len(key) <= MAX_KEY_CHARS and key.isidentifier() and _is_empty(value[key]) for key in value)
    if isinstance(value, list):
        return all(map(_is_empty, value))
    return value in (None, "", 0, False)


def without_additions(content: str) -> str:
    """Return what the user typed of a message: no pastes, names of files, messages of others and texts of jobs."""
    return without_pastes(_to_typed(content))


def _to_typed(content: str) -> str:
    # Models write the texts of jobs.
    job = prompts().schedules.due.partition("{job}")[0]
    for heading in (prompts().turn.earlier_heading, FILES_HEADING, job):
        content = content.partition(heading)[0]
    return content


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, node in value.items():
            yield str(key)
            yield from _texts_in(node)
    elif isinstance(value, list):
        for child in value:
            yield from _texts_in(child)
