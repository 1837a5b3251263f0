"""The resources as people write them: a model for each kind, of which validation, CRDs, export and apply are made.

What a value may be beyond its type says the database, in a sentence, when the resource is applied.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Struct
from pydantic import (
    AllowInfNan,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from shared.errors import Refusal

GROUP, VERSION = "parley.chat", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
# What the log of changes, and an export, write in the place of a secret.
SECRET_MARK = "[secret-removed]"  # noqa: S105  # no secret

# UTF-8 has no lone surrogate, and Postgres no NUL.
UNWRITABLE = re.compile("[\0\ud800-\udfff]")

Permission = Literal["guest", "user", "admin", "owner"]
# A name of Kubernetes (RFC 1123), shorter than it allows, because it is a label's value too.
ResourceName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=63)]
Number = Annotated[
    float, AllowInfNan(False), PlainSerializer(lambda number: int(number) if number.is_integer() else number)
]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class Spec(_Model):
    """What a resource says of its row."""

    kind_name: ClassVar[str]
    plural: ClassVar[str]

    def to_key(self, name: str) -> str:
        """Return what tells the row from others of its table; `name` is the resource's."""
        return getattr(self, "name", None) or name

    def to_fields(self) -> dict[str, Any]:
        """Return what differs from the defaults, as it is written, without the name."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"name"})


class PersonaSpec(Spec):
    """Who the agent is in a place, or by default."""

    kind_name = "Persona"
    plural = "personas"

    name: str | None = None
    """The row's name, where it is not that of the resource."""
    instructions: str
    """The instructions that the model is given."""
    model: str | None = None
    """litellm name of the model to try first; none: LLM_MODELS."""
    tools: tuple[str, ...] | None = None
    """Modules and MCP servers whose tools it may use; none: all that the permission allows."""
    steps: Annotated[int, Field(ge=1, le=100)] | None = None
    """Most waves of tool calls; none: MAX_AGENT_ITERATIONS."""
    skills: tuple[str, ...] | None = None
    """Skills that the model may load; none: no skill."""
    platform: str | None = None
    """Only on this platform: discord, slack, web, terminal, …"""
    server: str | None = None
    """Only on this server or workspace, by its id."""
    channel: str | None = None
    """Only in this channel, by its id."""
    is_default: Annotated[bool, Field(alias="default")] = False
    """Does it answer wherever no closer persona does?"""
    max_tokens: Count | None = None
    """Most output tokens of one model call."""
    max_temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    """Highest temperature that a program may ask for."""
    loop_mode: Literal["native", "planner"] | None = None
    """native: the model calls tools; planner: it writes a plan; none: as PLANNER_PERCENT says."""
    allow_mentions: bool = False
    """May replies mention people?"""
    suggestions: tuple[str, ...] | None = None
    """What an empty chat of the page suggests to say: at most six texts of 80 characters; none: what it always does."""
    open_to: Literal["guest", "user", "admin", "owner"] | None = None
    """Who may choose it for a chat of the page; none: nobody."""


class AgentEnvironment(_Model):
    """Settings of this agent alone."""

    mock_responses: Annotated[str | None, Field(alias="DEBUG_MOCK_RESPONSES")] = None
    """Scripted answers instead of a model: a JSON list, as docs/mock.md has it."""


class AgentConfig(_Model):
    """How the agent runs."""

    env: AgentEnvironment = AgentEnvironment()
    """Settings of this agent alone."""


class AgentSpec(Spec):
    """An agent that tasks may be handed to: with instructions of its own, by a persona, or at a URL."""

    kind_name = "Agent"
    plural = "agents"

    name: str | None = None
    """What models call it, where that is not the resource's name."""
    description: str
    """What it is good for: the model chooses by this."""
    instructions: str | None = None
    """The instructions of an agent that has a persona of its own."""
    model: str | None = None
    """With instructions: litellm name of the model to try first; none: LLM_MODELS."""
    tools: tuple[str, ...] | None = None
    """With instructions: modules and MCP servers whose tools it may use; none: all that the person may."""
    steps: Annotated[int, Field(ge=1, le=100)] | None = None
    """With instructions: most waves of tool calls; none: MAX_AGENT_ITERATIONS."""
    persona: str | None = None
    """The persona that answers, by the name of its row."""
    url: str | None = None
    """The address of an agent that speaks A2A."""
    headers: dict[str, str] = {}
    """With a url: headers, with ${A2A_NAME} for a variable of Parley's."""
    permission: Permission = "guest"
    """Who may ask it."""
    peers: tuple[str, ...] | None = None
    """Agents that it may ask; none: all, by the rules of delegation."""
    config: AgentConfig = AgentConfig()
    """How the agent runs."""
    enabled: bool = True
    """Off: nobody may ask it."""


class McpServerSpec(Spec):
    """An MCP server whose tools may be used, as server.tool."""

    kind_name = "McpServer"
    plural = "mcpservers"

    name: str | None = None
    """The name before the dot of its tools, where that is not the resource's."""
    command: str | None = None
    """The program that is started and spoken with over pipes, best with its whole path."""
    args: tuple[str, ...] = ()
    """With a command: its arguments."""
    env: dict[str, str] = {}
    """With a command: its whole environment, with ${MCP_NAME} for a variable of Parley's."""
    url: str | None = None
    """The address of a server that speaks streamable HTTP."""
    headers: dict[str, str] = {}
    """With a url: headers, with ${MCP_NAME} for a variable of Parley's."""
    permission: Permission = "user"
    """Who may use its tools."""
    read_only_tools: tuple[str, ...] = ()
    """Tools that change nothing, and may run again after a failure; *: all."""
    tells_nobody_tools: tuple[str, ...] = ()
    """Tools that send no word of a call to others, so that they need no yes; *: all."""
    reads_untrusted: bool = True
    """May its results hold what strangers have written?"""
    reads_private: bool = True
    """Do its results hold what not everybody may know?"""
    timeout_seconds: Annotated[Number, Field(ge=0.1, le=600)] = 60.0
    """How long one call may take."""
    tells_user: bool = False
    """Tell it with each call who asks and where? Only for a Parley of your own."""
    enabled: bool = True
    """Off: not connected, its tools are gone."""


class ModuleSpec(Spec):
    """A module that is off, or that only some may use."""

    kind_name = "Module"
    plural = "modules"

    name: str | None = None
    """The module's name, where it is not that of the resource."""
    permission: Permission = "guest"
    """Who may use its tools; one that needs more itself still does."""
    enabled: bool = True
    """Off: nobody may use its tools."""

    @model_validator(mode="after")
    def _says_something(self) -> "ModuleSpec":
        if self.enabled and self.permission == "guest":
            raise ValueError("it says what holds without it; give `enabled: false` or a permission, or delete it")
        return self


class BudgetSpec(Spec):
    """A limit on what may be spent in a day or a month."""

    kind_name = "Budget"
    plural = "budgets"

    kind: Literal["person", "permission", "role", "channel", "persona", "server", "installation"]
    """What is limited together."""
    period: Literal["day", "month"] = "month"
    """Of the calendar, in UTC."""
    tokens: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    """Tokens in a period; none: unlimited."""
    dollars: Annotated[Number, Field(ge=0)] | None = None
    """US dollars in a period; none: unlimited."""
    platform: str | None = None
    """person, role, channel, server: the platform."""
    account: str | None = None
    """person: the id of an account on that platform."""
    server: str | None = None
    """role, server, and a channel that has one: the server's id."""
    channel: str | None = None
    """channel: its id, threads included."""
    role: str | None = None
    """role: its id; all who have it on that server."""
    persona: str | None = None
    """persona: the name of its row."""
    permission: Permission | None = None
    """permission: all people with it together."""

    def to_key(self, name: str) -> str:  # a limit has no name, only a subject
        """Return the subject: a row is told from others by what it limits."""
        subject = (self.platform, self.account, self.server, self.channel, self.role, self.persona, self.permission)
        return " ".join((self.period, self.kind, *(part or "-" for part in subject)))


# In the order in which they are applied: agents and budgets name personas, personas the tools of servers.
SPECS: Mapping[str, type[Spec]] = {
    spec.kind_name: spec for spec in (ModuleSpec, McpServerSpec, PersonaSpec, AgentSpec, BudgetSpec)
}


class Metadata(BaseModel):
    """The name of a resource; labels, annotations and what a cluster adds are left to Kubernetes."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: ResourceName


class Manifest(Struct, frozen=True):
    """A resource. `source` says where it stands, for complaints."""

    kind: str
    name: str
    spec: Spec
    source: str = ""

    @property
    def key(self) -> str:
        """Return what tells its row from others of the table."""
        return self.spec.to_key(self.name)

    def to_document(self) -> dict[str, Any]:
        """Return the resource as it is written into a file."""
        fields = self.spec.to_fields()
        name = getattr(self.spec, "name", None)
        if name is not None and name != self.name:
            fields = {"name": name, **fields}
        return {"apiVersion": API_VERSION, "kind": self.kind, "metadata": {"name": self.name}, "spec": fields}


def read_manifest(document: Any, source: str = "") -> Manifest:
    """Return the resource that a document describes; raises `Refusal` with all that is wrong with it."""
    where = f"{source}: " if source else ""
    if not isinstance(document, dict):
        raise Refusal(f"{where}not a resource: it needs apiVersion, kind, metadata and spec")
    kind, spec = str(document.get("kind")), document.get("spec") or {}
    if document.get("apiVersion") != API_VERSION or kind not in SPECS:
        raise Refusal(
            f"{where}{document.get('apiVersion')} {kind} is no resource of Parley's; "
            f"there are, of {API_VERSION}: {', '.join(SPECS)}"
        )
    try:
        name = Metadata.model_validate(document.get("metadata") or {}).name
    except ValidationError as error:
        raise Refusal(f"{where}{kind}: {'; '.join(_list_faults(error, 'metadata'))}") from None
    if SECRET_MARK in str(spec):
        raise Refusal(
            f"{where}{kind}/{name}: {SECRET_MARK} stands where an export has left out a secret; "
            "name a variable there, such as ${MCP_TOKEN}"
        )
    return Manifest(kind, name, read_spec(kind, spec, where=f"{where}{kind}/{name}"), source=source)


def read_spec(kind: str, spec: Any, *, where: str) -> Spec:
    """Return what a resource says of its row; raises `Refusal` with all that is wrong with it."""
    if any(UNWRITABLE.search(text) for text in _list_texts(spec)):
        raise Refusal(f"{where}: a text holds the character NUL, or half of one, which no database stores")
    try:
        # Arrays are tuples here, which strict validation does not make of lists.
        return SPECS[kind].model_validate(_to_tuples(spec))
    except ValidationError as error:
        raise Refusal(f"{where}: {'; '.join(_list_faults(error, 'spec'))}") from None


def _list_faults(error: ValidationError, root: str) -> Iterator[str]:
    for fault in error.errors(include_url=False, include_input=False):
        place = ".".join((root, *map(str, fault["loc"])))
        hint = "; put it in quotes" if fault["type"] == "string_type" else ""
        yield f"{place}: {fault['msg']}{hint}"


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for element in (*value, *(value.values() if isinstance(value, dict) else ())):
            yield from _list_texts(element)


def _to_tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_to_tuples(element) for element in value)
    if isinstance(value, dict):
        return {key: _to_tuples(element) for key, element in value.items()}
    return value
