"""What the OpenAI-compatible API answers with."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class PromptDetails(TypedDict):
    """How much of the prompt the model's provider had in its cache."""

    cached_tokens: int


class ChatUsage(TypedDict):
    """The tokens of all model calls of the turn together."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class ChatAnswer(TypedDict):
    """The agent's message."""

    role: Literal["assistant"]
    content: str
    refusal: None


FinishReason = Literal["stop", "length"]


class ChatChoice(TypedDict):
    """The one answer."""

    index: int
    message: ChatAnswer
    logprobs: None
    finish_reason: FinishReason


class ChatCompletion(TypedDict):
    """The answer to `POST /v1/chat/completions`."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage


class ChatDelta(TypedDict, total=False):
    """What a chunk adds."""

    role: Literal["assistant"]
    content: str


class ChatChunkChoice(TypedDict):
    """The one answer, as far as this chunk has it."""

    index: int
    delta: ChatDelta
    logprobs: None
    finish_reason: FinishReason | None


class ChatChunk(TypedDict):
    """A chunk of a streamed answer; the one with the usage has no choices."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: NotRequired[ChatUsage | None]


class Model(TypedDict):
    """The agent, which looks like a model here."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(TypedDict):
    """All models: the agent alone."""

    object: Literal["list"]
    data: list[Model]


class OutputText(TypedDict):
    """The text of the answer."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any]
    logprobs: list[Any]


ItemStatus = Literal["in_progress", "completed", "incomplete"]


class OutputMessage(TypedDict):
    """The agent's message."""

    type: Literal["message"]
    id: str
    role: Literal["assistant"]
    status: ItemStatus
    content: list[OutputText]


class InputDetails(TypedDict):
    """How much of the prompt the model's provider had in its cache."""

    cached_tokens: int
    cache_write_tokens: int


class OutputDetails(TypedDict):
    """Tokens of thought, which are not counted apart from the others: always 0."""

    reasoning_tokens: int


class ResponseUsage(TypedDict):
    """The tokens of all model calls of the turn together."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseError(TypedDict):
    """Why there is no answer."""

    code: str
    message: str


class IncompleteDetails(TypedDict):
    """Why the answer ends early."""

    reason: Literal["max_output_tokens"]


class TextFormat(TypedDict):
    """The format of the answer."""

    type: Literal["text"]


class ResponseText(TypedDict):
    """How the answer is written."""

    format: TextFormat


class Response(TypedDict):
    """The answer to `POST /v1/responses`. One that is read later has no instructions and options of its request."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    background: Literal[False]
    error: ResponseError | None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    model: str
    output: list[OutputMessage]
    parallel_tool_calls: bool
    previous_response_id: str | None
    store: bool
    temperature: float | None
    text: ResponseText
    tool_choice: Literal["auto"]
    tools: list[Any]
    top_p: float | None
    truncation: Literal["disabled"]
    usage: ResponseUsage | None


class DeletedResponse(TypedDict):
    """An answer that can't be read or gone on from any more."""

    id: str
    object: Literal["response"]
    deleted: Literal[True]


class ResponseEvent(TypedDict):
    """An event of a streamed answer; by its type it has further fields, as in OpenAI's API."""

    type: Literal[
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
        "response.incomplete",
        "response.failed",
    ]
    sequence_number: int
    response: NotRequired[Response]
    output_index: NotRequired[int]
    content_index: NotRequired[int]
    item_id: NotRequired[str]
    item: NotRequired[OutputMessage]
    part: NotRequired[OutputText]
    delta: NotRequired[str]
    text: NotRequired[str]
    logprobs: NotRequired[list[Any]]
