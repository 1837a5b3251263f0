"""Routes that fail: tried again, left alone, passed over, waited for."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from structlog.testing import capture_logs

from agent.llm.completions import CallObserver, ModelRequest
from agent.llm.router import Router
from shared.clock import SystemClock
from shared.errors import ModelsUnavailable
from shared.messages import EstimatedUsage
from shared.settings import Settings
from tests.standins.openai_api import Answer, Fault, OpenAIStub
from tests.support.model_calls import HELLO, by_model, parley


@pytest.mark.parametrize(
    "fault",
    [
        Fault(503),
        Fault(500, "<html>down</html>"),
        Fault(drop=True),
        Fault(malformed=True),
        Fault(200, {"choices": []}),
        Fault(200, {"error": {"message": "overloaded", "code": 503}}),
        Fault(empty=True),
        Fault(429, retry_after=60),
        Fault(401),
        Fault(403),
        Fault(404, {"error": {"message": "The model does not exist", "code": "model_not_found"}}),
        Fault(400, {"error": {"message": "maximum context length is 8192 tokens", "code": "context_length_exceeded"}}),
        Fault(400),
    ],
    ids=lambda fault: f"{fault.status}-{fault.body or fault.drop or fault.malformed or fault.empty}"[:40],
)
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_route_that_fails_leads_to_the_next(fault: Fault, is_streamed: bool) -> None:
    async with parley(by_model(first=fault, second=Answer("Here I am.")), "first", "second") as at:
        answer = await at.asks(is_streamed=is_streamed)

        assert (answer.text, answer.model) == ("Here I am.", "second")
        assert at.asked_models[-1] == "second"
        assert "".join(at.told) == ("Here I am." if is_streamed else "")
        events = at.router.take_events()
        assert events["fallback", "first", "second"] == 1
        assert {(kind, subject) for kind, subject, _ in events} >= {("route_failure", "first")}
        assert not at.router.take_events()


@pytest.mark.parametrize(
    ("fault", "billed"),
    [
        (Fault(drop=True), ["first"]),
        (Fault(malformed=True), ["first"]),
        (Fault(200, {"choices": []}), ["first"]),
        (Fault(503), []),
    ],
    ids=["broken off", "unreadable", "without a choice", "refused"],
)
async def test_an_answer_that_breaks_off_unstreamed_is_charged_with_an_estimate(
    fault: Fault, billed: list[str]
) -> None:
    async with parley(by_model(first=fault, second=Answer("Here I am.")), "first", "second") as at:
        answer = await at.asks()

        assert sorted({attempt.model for attempt in answer.rejected}) == billed
        assert all(attempt.usage.input_tokens > 0 for attempt in answer.rejected)
        assert all(isinstance(attempt.usage, EstimatedUsage) for attempt in answer.rejected)


async def test_a_server_that_does_not_listen_leads_to_the_next_route() -> None:
    async with OpenAIStub() as server:
        address = server.base_url
    router = Router(
        Settings(llm_models=("small", "offline"), openai_base_url=address), SystemClock(), jitter=lambda: 0.0
    )
    answer = await router.complete(ModelRequest(HELLO, (), 10), deadline=SystemClock().monotonic() + 20)
    await router.aclose()

    assert answer.model == "offline"


async def test_a_passing_failure_is_tried_again_on_the_same_route() -> None:
    async with parley([Fault(429, retry_after=0), "Now."], "first", "second") as at:
        assert (await at.asks()).text == "Now."
        assert at.asked_models == ["first", "first"]


async def test_a_failed_route_is_left_alone_until_its_cooldown_ends() -> None:
    async with parley(by_model(first=Fault(429, retry_after=30), second=Answer("Here.")), "first", "second") as at:
        await at.asks()
        await at.asks()
        at.clock.ahead += 31
        at.stub.play(by_model(first=Answer("Back."), second=Answer("Here.")))
        answer = await at.asks()

        assert at.asked_models == ["first", "second", "second", "first"]
        assert (answer.text, answer.model) == ("Back.", "first")


async def test_a_date_is_understood_as_a_time_to_wait() -> None:
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=120), usegmt=True)
    async with parley(by_model(first=Fault(429, retry_after=until), second=Answer("Here.")), "first", "second") as at:
        await at.asks()
        at.clock.ahead += 60
        await at.asks()
        at.clock.ahead += 70
        at.stub.play(None)
        await at.asks()

        assert at.asked_models == ["first", "second", "second", "first"]


async def test_the_only_route_is_waited_for_when_it_says_how_long() -> None:
    async with parley([Fault(429, retry_after=0.1), Fault(429, retry_after=0.6), "Now."]) as at:
        assert (await at.asks()).text == "Now."


async def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    async with parley(by_model(small=Fault(429, retry_after=60))) as at:
        with pytest.raises(ModelsUnavailable) as excinfo:
            await at.asks(seconds=30)

        assert 50 < (excinfo.value.retry_after or 0) <= 60
        assert str(excinfo.value) == "I can't reach any language model just now; please try again in a few minutes."


async def test_a_shaky_route_is_still_asked_when_nothing_better_is_left() -> None:
    async with parley(by_model(small=Fault(503))) as at:
        with pytest.raises(ModelsUnavailable):
            await at.asks()
        at.stub.play(["Back."])

        assert (await at.asks()).text == "Back."


async def test_a_refused_key_closes_the_route_and_the_log_says_the_remedy_once() -> None:
    async with parley(by_model(first=Fault(401), second=Answer("Here.")), "first", "second") as at:
        with capture_logs() as logs:
            for _ in range(3):
                await at.asks()

        assert at.asked_models == ["first", "second", "second", "second"]
        [line] = [log for log in logs if log["event"] == "route_failed"]
        assert (line["route"], line["cause"], line["status"]) == ("first", "key_refused", 401)
        assert "API key" in line["remedy"]
        assert "sk-test" not in str(logs)
        assert "hello" not in str(logs)


async def test_the_only_route_with_a_refused_key_is_probed_every_15_seconds_and_says_its_cause() -> None:
    async with parley([Fault(401), "Back."]) as at:
        for _ in range(2):
            with capture_logs() as logs, pytest.raises(ModelsUnavailable) as excinfo:
                await at.asks()
            assert logs[-1]["causes"] == excinfo.value.fields["causes"] == {"small": "key_refused"}
            assert 10 < (excinfo.value.retry_after or 0) <= 15
        assert len(at.asked_models) == 1
        at.clock.ahead += 16

        assert (await at.asks()).text == "Back."
        assert (await at.asks()).text == "You said: hello"


async def test_what_the_background_is_refused_closes_no_route_for_people() -> None:
    async with parley([Fault(401), "Hello.", Fault(401), "Now."]) as at:
        for _ in range(2):
            with pytest.raises(ModelsUnavailable):
                await at.asks(is_background=True)
        assert (await at.asks()).text == "Hello."
        with pytest.raises(ModelsUnavailable):
            await at.asks()
        at.clock.ahead += 16

        assert (await at.asks(is_background=True)).text == "Now."


async def test_an_account_without_credit_is_no_rate_limit() -> None:
    quota = Fault(429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}})
    async with parley(by_model(first=quota, second=Answer("Here.")), "first", "second") as at:
        with capture_logs() as logs:
            await at.asks()

        assert at.asked_models == ["first", "second"]
        assert logs[0]["cause"] == "out_of_credit"


async def test_a_name_that_no_provider_has_says_so() -> None:
    router = Router(Settings(llm_models=("no-such-model", "offline")), SystemClock())
    with capture_logs() as logs:
        answer = await router.complete(ModelRequest(HELLO, (), 10), deadline=SystemClock().monotonic() + 20)
    await router.aclose()

    assert answer.model == "offline"
    assert logs[0]["cause"] == "model_unknown"


async def test_when_all_fail_there_is_one_sentence_and_every_cause_in_the_log() -> None:
    async with parley(by_model(first=Fault(503), second=Fault(401)), "first", "second") as at:
        with capture_logs() as logs, pytest.raises(ModelsUnavailable):
            await at.asks(seconds=5)

        [line] = [log for log in logs if log["event"] == "models_unavailable"]
        assert line["causes"] == {"first": "unreachable", "second": "key_refused"}


async def test_a_route_that_hangs_leaves_time_for_the_next() -> None:
    async with parley(by_model(first=Fault(hang=True), second=Answer("Here.")), "first", "second") as at:
        # What is loaded at the first call takes as long.
        await at.router.warm()
        answer = await at.asks(seconds=2)

        assert answer.model == "second"
        assert at.asked_models == ["first", "second"]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_the_deadline_holds_for_all_attempts_together(is_streamed: bool) -> None:
    async with parley(by_model(small=Fault(hang=True))) as at:
        start = at.clock.monotonic()
        with pytest.raises(ModelsUnavailable):
            await at.asks(seconds=0.5, is_streamed=is_streamed)

        assert at.clock.monotonic() - start < 2


async def test_a_cancelled_call_hangs_up_at_once() -> None:
    async with parley([Answer("A long sentence that is told bit by bit.", chunk_chars=2, chunk_delay=0.02)]) as at:
        heard = asyncio.Event()
        call = asyncio.create_task(
            at.router.complete(
                ModelRequest(HELLO, (), 10),
                deadline=at.clock.monotonic() + 20,
                observer=CallObserver(lambda _text: heard.set()),
            )
        )
        await heard.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await at.stub.until_idle()

        assert at.stub.abandoned == 1


async def test_models_of_the_request_come_first_and_none_is_asked_twice() -> None:
    async with parley(lambda _body, _number: Fault(400), "first", "second") as at:
        with pytest.raises(ModelsUnavailable):
            await at.asks(models=("third", "second"))

        assert at.asked_models == ["third", "second", "first"]
