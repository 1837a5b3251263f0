"""A worker is killed or frozen while it runs a plan: calls with needs run at most once."""

from pathlib import Path

import pytest

from shared.db.database import Address, Database
from shared.settings import Settings
from tests.crash.promises import broken_at_each, list_deaths
from tests.crash.stage import open_stage
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body, last_user_text
from tests.support.databases import Databases
from tests.support.planning import call, plan, results_in
from tests.support.recovery import losing_acknowledgements
from tests.test_crashes import Scene, list_points, play

PLANS = """
INSERT INTO personas (name, system_prompt, allowed_modules, loop_mode, is_default)
VALUES ('Planner', 'You plan.', '["stage"]', 'planner', true)
"""
TOOLS = (call("stage.read", "r"), call("stage.effect", "e", "r"))
SCENES = {
    "continue": Scene((plan(*TOOLS), plan(response="It is done.")), PLANS),
    "done": Scene((plan(*TOOLS, status="done", response="It is done."), plan(response="It is done.")), PLANS),
}
pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(300)]


@pytest.mark.parametrize(("status", "action"), [("continue", "kill"), ("continue", "freeze"), ("done", "kill")])
async def test_a_plan_is_resumed_from_the_journal(stages: Databases, tmp_path: Path, status: str, action: str) -> None:
    scene = SCENES[status]
    points = await list_points(stages, tmp_path, "", scene)
    points = points[points.index("model after 1") : points.index("effect after 1") + 3]
    assert len(points) > 8
    # Fencing works the same for plans, so three points are enough.
    points = points[::4] if action == "freeze" else list_deaths(points)

    async def one(point: str) -> list[str]:
        return await play(stages, tmp_path, point, action, "", scene)

    assert await broken_at_each(points, one) == []


async def test_the_acknowledgement_of_any_commit_may_be_lost_while_a_plan_runs(
    settings: Settings, address: Address, model: OpenAIStub, database: Database
) -> None:
    def answer(body: Body, _number: int) -> Answer:
        if results_in(body):
            return Answer(plan(response="Noted."))
        memory_call = call("knowledge.remember", "m", "f", content=last_user_text(body).partition("\n")[0])
        return Answer(plan(call("file_manager.list_files", "f"), memory_call))

    model.play(answer)
    configuration = settings.model_copy(update={"planner_percent": 100, "default_guest_token_budget": 100_000_000})
    async with losing_acknowledgements(configuration, address, model, database) as losing:
        async for question in losing.messages():
            reply = await losing.parley.ask(question, channel=question)
            assert (reply.error, reply.content, len(reply.tool_calls_made)) == (None, "Noted.", 2)
        assert await losing.parley.value("SELECT count(*) FROM turns WHERE waves <> 2") == 0


@pytest.mark.parametrize(
    ("point", "reported", "model_calls"), [("read after 1", "effect done", 1), ("effect before 1", "unknown", 2)]
)
async def test_after_a_crash_only_calls_that_cannot_have_begun_run(
    stages: Databases, tmp_path: Path, point: str, reported: str, model_calls: int
) -> None:
    async with open_stage(stages, tmp_path) as stage:
        scene = SCENES["done"]
        await stage.owner.execute(scene.typed)
        first = await stage.worker("first", scene.answers, at=point, action="kill")
        inbox_id = await stage.accepts("room: note this")
        await first.until_gone()
        await stage.age_the_dead()
        second = await stage.worker("second", scene.answers)
        response = await stage.response(inbox_id)
        await second.stop()

        assert response.content == "It is done."
        assert reported in str(response.tool_calls_made[1].result)
        assert await stage.value("SELECT count(*) FROM stage_effects") == int(reported == "effect done")
        assert await stage.value("SELECT count(*) FROM stage_model_calls") == model_calls
        assert await stage.rows("SELECT loop_mode, waves, attempt FROM turns") == [("planner", 2, 2)]
