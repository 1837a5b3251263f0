"""The body of `POST /v1/responses`, as far as it is read; below it, it is a request for a completion like any other."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag

from adapters.web.api.bodies import Flag, LooseName, Name, Text
from adapters.web.api.openai.bodies import (
    AgentRequest,
    ChatMessage,
    ChatRequest,
    FileContent,
    FilePart,
    ImageAddress,
    ImagePart,
    Open,
    Part,
    TextAlone,
    TextPart,
)
from adapters.web.faults import Fault, invalid

BY_ID = "files of OpenAI can't be read here: send the content as a data: address, or a web address"
ASKED_FOR_ITEM = "This agent brings its own tools; a client's calls, results and references can't be part of the input."


class InputText(Open):
    """A text part of a message, or of an earlier answer."""

    type: Literal["input_text", "output_text"]
    text: Text

    def to_part(self, _field: str) -> Part:
        """Return the part of a chat message."""
        return TextPart(type="text", text=self.text)


class InputRefusal(Open):
    """An earlier answer that was a refusal."""

    type: Literal["refusal"]
    refusal: Text

    def to_part(self, _field: str) -> Part:
        """Return the part of a chat message."""
        return TextPart(type="text", text=self.refusal)


class InputImage(Open):
    """An image: its URL, or a `data:` URL."""

    type: Literal["input_image"]
    image_url: Annotated[str, Field(strict=True)] | None = None

    def to_part(self, field: str) -> Part:
        """Return the part of a chat message."""
        if self.image_url is None:
            raise invalid(field, BY_ID)
        return ImagePart(type="image_url", image_url=ImageAddress(url=self.image_url))


class InputFile(Open):
    """A file: its content as a `data:` URL, or its URL."""

    type: Literal["input_file"]
    filename: Name = "file"
    file_data: Annotated[str, Field(strict=True)] | None = None
    file_url: Annotated[str, Field(strict=True)] | None = None

    def to_part(self, field: str) -> Part:
        """Return the part of a chat message."""
        address = self.file_data or self.file_url
        if address is None:
            raise invalid(field, BY_ID)
        return FilePart(type="file", file=FileContent(filename=self.filename, file_data=address))


InputPart = Annotated[InputText | InputRefusal | InputImage | InputFile, Field(discriminator="type")]


class InputMessage(Open):
    """A message of the input: of the client's history, or the one to answer."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[
        Annotated[Text, Tag("text")] | Annotated[list[InputPart], Field(max_length=100), Tag("parts")],
        Discriminator(lambda content: "parts" if isinstance(content, list) else "text"),
    ]

    def to_chat(self, field: str) -> ChatMessage:
        """Return the message of a chat."""
        if isinstance(self.content, str):
            return ChatMessage(role=self.role, content=self.content)
        parts = [part.to_part(f"{field}.content.{number}") for number, part in enumerate(self.content)]
        return ChatMessage(role=self.role, content=parts)


class OtherItem(Open):
    """An item that is no message: what a model has thought is left out, any other is refused."""

    type: Name


def find_kind(item: Any) -> str:
    """Return which of the two an item is."""
    type_ = item.get("type", "message") if isinstance(item, dict) else getattr(item, "type", "message")
    return "message" if type_ == "message" else "other"


InputItem = Annotated[
    Annotated[InputMessage, Tag("message")] | Annotated[OtherItem, Tag("other")], Discriminator(find_kind)
]


class TextFormat(Open):
    """The format of the answer; only text is supported."""

    type: TextAlone = "text"


class TextOptions(Open):
    """How the answer is written."""

    format: TextFormat | None = None


class NamedConversation(Open):
    """The conversation to which the request belongs."""

    id: Name


MetadataKey = Annotated[str, StringConstraints(max_length=64)]
MetadataValue = Annotated[str, StringConstraints(strict=True, max_length=512)]


class ResponseRequest(AgentRequest):
    """The body of `POST /v1/responses`."""

    input: Annotated[
        Annotated[Text, Tag("text")] | Annotated[list[InputItem], Field(min_length=1, max_length=10_000), Tag("items")],
        Discriminator(lambda value: "items" if isinstance(value, list) else "text"),
    ]
    instructions: Text | None = None
    previous_response_id: LooseName | None = None
    conversation: Name | NamedConversation | None = None
    metadata: Annotated[dict[MetadataKey, MetadataValue], Field(max_length=16)] | None = None
    store: Flag | None = None
    max_output_tokens: Annotated[int, Field(strict=True, ge=1)] | None = None
    text: TextOptions | None = None
    # What has no place in an agent's answer.
    background: Any = None
    context_management: Any = None
    max_tool_calls: Any = None
    moderation: Any = None
    prompt: Any = None

    @property
    def is_stored(self) -> bool:
        """Return whether the answer can be read, and gone on from, later."""
        return self.store is not False

    @property
    def conversation_id(self) -> str | None:
        """Return the name of the conversation."""
        if self.conversation is not None:
            return self.conversation if isinstance(self.conversation, str) else self.conversation.id
        return (self.metadata or {}).get("conversation_id")

    def to_chat(self) -> ChatRequest:
        """Return the request for a completion; raises a 400 for what can't be in it."""
        messages = [ChatMessage(role="system", content=self.instructions)] if self.instructions else []
        if isinstance(self.input, str):
            messages.append(ChatMessage(role="user", content=self.input))
        else:
            for number, item in enumerate(self.input):
                if isinstance(item, InputMessage):
                    messages.append(item.to_chat(f"input.{number}"))
                elif item.type != "reasoning":
                    raise Fault(400, "unsupported_parameter", ASKED_FOR_ITEM, field=f"input.{number}")
        return ChatRequest.model_construct(
            messages=messages,
            user=self.user,
            safety_identifier=self.safety_identifier,
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_output_tokens,
            stream=self.stream,
        )
