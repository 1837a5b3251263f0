"""Model calls that tools make, paid from the same budget as the turn's own."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from msgspec import Struct, field

from agent.journal.records import pay, settle
from agent.llm.completions import CallObserver, ModelRequest, RejectedCall, count_prompt
from agent.llm.media_requests import DrawingRequest, SpeechRequest, TranscriptionRequest
from agent.people.billing.budget import (
    Admission,
    AdmissionStatus,
    PaidCall,
    Payment,
    Reservation,
    add_usage,
    reserve,
    wait_while_busy,
)
from agent.turn.context.images import with_images
from agent.turn.running import RESERVATION_SLACK_SECONDS, RunningTurn
from agent.turn.services import TurnServices
from shared.db.database import DatabaseLost, retry_on_lost_db
from shared.errors import PromptTooLong, Refusal, ToolError
from shared.files.recordings import PURPOSE as VOICE
from shared.tasks import shield_until_done

PURPOSE = "tool"
MAX_DRAWING_BYTES = 20 * 1024 * 1024
TOO_LONG = "The text is longer than the language model can read at once."


class ToolModels(Struct, frozen=True):
    """The models of a turn for one of its tools. Calls of tools of the same turn are made one after the other."""

    services: TurnServices
    turn: RunningTurn

    async def complete(self, prompt: str, *, instructions: str, max_tokens: int, image_id: int | None = None) -> str:
        """Return a model's answer; raises `ToolError` for a refusal by the budget, `Unavailable` without any model."""
        turn = self.turn
        # The tool may have put a credential of the person into it, or what another service has answered.
        prompt, instructions = map(turn.announcer.outflow.without_secrets, (prompt, instructions))
        images: dict[int, str] = {}
        if image_id is not None:
            files = self.services.files
            own = files.storage.of_user(self.services.database, turn.user.id, turn.conversation.id, turn.key.id)
            image = await files.images.show(await own.find_content(image_id))
            if image is None:
                raise ToolError("This file is no image that can be shown: PNG, JPEG, WebP and GIF can.")
            images[image_id] = image
        messages = [{"role": "user", "content": with_images(prompt, list(images)) if images else prompt}]
        if instructions:
            messages.insert(0, {"role": "system", "content": instructions})
        spend = turn.spend
        async with spend.one_call:
            request = ModelRequest(
                messages=tuple(messages),
                tools=(),
                max_tokens=max_tokens,
                models=turn.persona.models,
                position=spend.next_number(),
                tokens=count_prompt(messages) + max_tokens,
                images=images,
            )
            call = _Call(request.tokens or 0, spend.cost_of(request.tokens or 0))
            observer = CallObserver(spent=call.spent, pay=partial(self._pay_rejected, call))
            async with self._paid(call):
                completion = await self.services.models.router.complete(
                    request,
                    deadline=turn.deadline,
                    observer=observer,
                    is_background=turn.message.due_job is not None,
                )
                call.spent.append(RejectedCall(completion.model, completion.usage))
            return completion.text

    async def draw(self, prompt: str, *, model: str, size: str, tokens: int) -> bytes:
        """Return an image that this model makes; raises as `complete` does."""
        async with self.turn.spend.one_call:
            request = DrawingRequest(model, prompt, size, tokens=tokens)
            media = self.services.models.router.media
            call = _Call(tokens, await media.cost(request))
            async with self._paid(call):
                drawing = await media.draw(request, deadline=self.turn.deadline, spent=call.spent)
        if isinstance(drawing, bytes):
            return drawing
        return (await self.services.files.http.get(drawing, max_bytes=MAX_DRAWING_BYTES)).body

    async def speak(self, text: str, *, model: str, voice: str, tokens: int) -> bytes:
        """Return a text spoken by this model, as MP3; raises as `complete` does."""
        async with self.turn.spend.one_call:
            request = SpeechRequest(model, text, voice, tokens=tokens)
            media = self.services.models.router.media
            call = _Call(tokens, await media.cost(request), VOICE)
            async with self._paid(call):
                return await media.speak(request, deadline=self.turn.deadline, spent=call.spent)

    async def transcribe(self, request: TranscriptionRequest) -> str:
        """Return what is said in a recording; raises as `complete` does."""
        async with self.turn.spend.one_call:
            media = self.services.models.router.media
            call = _Call(request.tokens, await media.cost(request), VOICE)
            async with self._paid(call):
                return await media.transcribe(request, deadline=self.turn.deadline, spent=call.spent)

    @asynccontextmanager
    async def _paid(self, call: "_Call") -> AsyncIterator[None]:
        # Reserves before the block, settles after it, and turns refusals into errors of the tool.
        try:
            try:
                await self._admit(call)
                yield
            finally:
                # Also when only the acknowledgement of the reservation was lost.
                await shield_until_done(self._settle(call))
        except PromptTooLong as error:
            raise ToolError(TOO_LONG) from error
        except Refusal as error:
            raise ToolError(str(error)) from error

    async def _admit(self, call: "_Call") -> None:
        # Waits as long as only other calls of the same person hold the rest of the budget.
        reservation = Reservation(
            self.turn.user.id,
            self.turn.key.id,
            self.turn.key.attempt,
            tokens=call.tokens,
            cost=call.cost,
            seconds=self._seconds_left + RESERVATION_SLACK_SECONDS,
        )

        async def request() -> Admission:
            async with self.services.database.statement() as session:
                admission = await reserve(session, reservation)
            call.reservation_id = admission.reservation_id
            return admission

        admission = await request()
        if admission.status is AdmissionStatus.BUSY:
            admission = await wait_while_busy(request, lambda: self._seconds_left)
        if not admission.is_admitted:
            raise admission.refusal()

    async def _pay_rejected(self, call: "_Call") -> None:
        # An answer that was rejected costs tokens too, so the budget has to admit the attempt after it.
        async def write() -> bool:
            seconds = self._seconds_left + RESERVATION_SLACK_SECONDS
            async with self.services.database.statement() as session:
                admission = await pay(
                    session, self.turn.key, Payment(call.paid, call.tokens, call.cost, seconds=seconds)
                )
            self._count(call.spent)
            call.spent.clear()
            call.reservation_id = admission.reservation_id
            return admission.is_admitted

        if not await shield_until_done(write()):
            await self._admit(call)

    async def _settle(self, call: "_Call") -> None:
        async def write() -> None:
            async with self.services.database.statement() as session:
                await settle(session, self.turn.key, call.paid)

        self._count(call.spent)
        try:
            await retry_on_lost_db(write, self._seconds_left)
        except DatabaseLost:
            # The next attempt at the turn pays for it.
            self.turn.spend.unpaid.extend(call.paid)
            raise

    def _count(self, calls: Sequence[RejectedCall]) -> None:
        for call in calls:
            self.turn.spend.usage = add_usage(self.turn.spend.usage, call.usage)

    @property
    def _seconds_left(self) -> float:
        return max(0.0, self.turn.deadline - self.services.clock.monotonic())


class _Call(Struct):
    """One model call: what is reserved for it, its unpaid attempts, and the reservation that it is made with."""

    tokens: int
    cost: float | None
    purpose: str = PURPOSE
    spent: list[RejectedCall] = field(default_factory=list)
    reservation_id: int | None = None

    @property
    def paid(self) -> list[PaidCall]:
        """Return the attempts in the ledger's form."""
        return [
            PaidCall(call.model, call.usage, self.purpose, reservation_id=self.reservation_id) for call in self.spent
        ]
