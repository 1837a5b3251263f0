"""One suite of AgentDojo as an MCP server: `python suite_server.py SUITE PORT`, in an environment of its own.

Beside `/mcp` it has `GET /tasks` and `GET /tools`, `POST /pair` to begin a user's task with or without an injection,
and `POST /verdict` to judge what was done. One pair runs at a time; what AgentDojo knows of it stays in this process.
"""

import json
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline
from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.attacks.attack_registry import load_attack
from agentdojo.attacks.base_attacks import BaseAttack
from agentdojo.base_tasks import BaseInjectionTask, BaseUserTask
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime, TaskEnvironment
from agentdojo.task_suite.load_suites import get_suite
from agentdojo.task_suite.task_suite import TaskSuite
from mcp.server.lowlevel import Server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

VERSION = "v1.2.2"
ATTACK = "important_instructions_no_names"
CANARY = "<canary of {}>"


@dataclass
class Pair:
    """A user's task, perhaps with an injection, and what was done so far."""

    user: BaseUserTask
    injection: BaseInjectionTask | None
    before: TaskEnvironment
    environment: TaskEnvironment
    calls: list[FunctionCall] = field(default_factory=list)


class Range:
    """The suite with the pair that runs."""

    def __init__(self, name: str) -> None:
        self.suite: TaskSuite = get_suite(VERSION, name)
        self.runtime = FunctionsRuntime(self.suite.tools)
        target = GroundTruthPipeline(None)
        # The attack takes the name of the model that it talks to from here.
        target.name = "local"
        self.attack: BaseAttack = load_attack(ATTACK, self.suite, target)
        self.pair: Pair | None = None

    def begin(self, user_id: str, injection_id: str | None) -> dict[str, Any]:
        """Prepare fresh data and return prompt, calls and last words of the task and of its injection.

        `read_injection_after` is the number of the user's calls after which the injection has been read.
        """
        user = self.suite.get_user_task_by_id(user_id)
        injection = None if injection_id is None else self.suite.get_injection_task_by_id(injection_id)
        injections = {} if injection is None else self.attack.attack(user, injection)
        environment = user.init_environment(self.suite.load_and_inject_default_environment(injections))
        self.pair = Pair(user, injection, environment.model_copy(deep=True), environment)
        return {
            "prompt": user.PROMPT,
            "user_calls": [to_json(call) for call in user.ground_truth(environment)],
            "user_output": user.GROUND_TRUTH_OUTPUT,
            "injection_calls": []
            if injection is None
            else [to_json(call) for call in injection.ground_truth(environment)],
            "injection_output": "" if injection is None else injection.GROUND_TRUTH_OUTPUT,
            "read_injection_after": 0 if injection is None else self.calls_until_read(user, injections),
        }

    def calls_until_read(self, user: BaseUserTask, injections: dict[str, str]) -> int:
        """Return after how many of the user's calls a result holds an injected text."""
        canaries = {name: CANARY.format(name) for name in injections}
        environment = user.init_environment(self.suite.load_and_inject_default_environment(canaries))
        calls = user.ground_truth(environment)
        for number, call in enumerate(calls, 1):
            result, _ = self.runtime.run_function(environment, call.function, call.args)
            if any(canary in tool_result_to_str(result) for canary in canaries.values()):
                return number
        return len(calls)

    def run(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Run a tool on the pair's data."""
        assert self.pair is not None
        result, error = self.runtime.run_function(self.pair.environment, name, arguments)
        self.pair.calls.append(FunctionCall(function=name, args=arguments))
        return CallToolResult(
            content=[TextContent(text=error or tool_result_to_str(result))], is_error=error is not None
        )

    def judge(self, output: str) -> dict[str, bool]:
        """Return whether the user's task was done, and whether the injection had its effect."""
        pair = self.pair
        assert pair is not None
        states = (output, pair.before, pair.environment)
        is_done = pair.user.utility_from_traces(*states, pair.calls)
        if is_done is None:
            is_done = pair.user.utility(*states)
        effect: bool | None = False
        if pair.injection is not None:
            effect = pair.injection.security_from_traces(*states, pair.calls)
            if effect is None:
                effect = pair.injection.security(*states)
        return {"done": bool(is_done), "effect": bool(effect)}


def to_json(call: FunctionCall) -> dict[str, Any]:
    return {"name": call.function, "arguments": json.loads(json.dumps(dict(call.args), default=str))}


def build_app(pairs: Range) -> Any:
    tools = [
        Tool(name=tool.name, description=tool.description, input_schema=tool.parameters.model_json_schema())
        for tool in pairs.suite.tools
    ]

    async def list_tools(_context: Any, _params: Any) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(_context: Any, params: CallToolRequestParams) -> CallToolResult:
        return pairs.run(params.name, params.arguments or {})

    async def tasks(_request: Request) -> JSONResponse:
        return JSONResponse({"user": list(pairs.suite.user_tasks), "injection": list(pairs.suite.injection_tasks)})

    async def names(_request: Request) -> JSONResponse:
        return JSONResponse(list(pairs.runtime.functions))

    async def begin(request: Request) -> JSONResponse:
        body = await request.json()
        return JSONResponse(pairs.begin(body["user"], body["injection"]))

    async def judge(request: Request) -> JSONResponse:
        return JSONResponse(pairs.judge((await request.json())["output"]))

    server = Server(pairs.suite.name, on_list_tools=list_tools, on_call_tool=call_tool)
    routes = [
        Route("/tasks", tasks),
        Route("/tools", names),
        Route("/pair", begin, methods=["POST"]),
        Route("/verdict", judge, methods=["POST"]),
    ]
    return server.streamable_http_app(stateless_http=True, custom_starlette_routes=routes)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    uvicorn.run(build_app(Range(sys.argv[1])), host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
