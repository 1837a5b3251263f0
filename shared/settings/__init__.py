"""The settings: read once from the environment and `.env`, checked, frozen. The only place that looks at them."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dotenv import dotenv_values
from pydantic import SecretStr, ValidationError

from shared.errors import ConfigurationError
from shared.settings.home import make_secret
from shared.settings.model import (
    LOCAL_EMBEDDING_MODELS,
    MODULES_FOLDER,
    MODULES_GROUP,
    SETTING_NAMES,
    Settings,
    find_env_file,
    find_local_model,
    first_fault,
)

__all__ = ["LOCAL_EMBEDDING_MODELS", "MODULES_FOLDER", "MODULES_GROUP", "SETTING_NAMES", "Settings", "find_env_file"]

# Variables that litellm, its providers and docker compose read by themselves; they may stand in `.env` beside ours.
PROVIDER_NAME = re.compile(
    r"^(AWS|AZURE|GOOGLE|GEMINI|VERTEX|VERTEXAI|WATSONX|DATABRICKS|OLLAMA|OPENROUTER|HF|HUGGINGFACE|OTEL|LITELLM|S3"
    r"|POSTGRES|COMPOSE)_[A-Z0-9_]+$"
    r"|_(API_KEY|API_BASE|BASE_URL|API_VERSION|ORGANIZATION)$"
    r"|^(HTTPS?_PROXY|NO_PROXY|SSL_CERT_FILE|SSL_CERT_DIR|TZ)$"
)
# As all names of settings are written but `HOST` and `PORT`.
NAME = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+|HOST|PORT")
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


def load_settings(env_file: Path | None = None, *, more_names: Collection[str] = ()) -> Settings:
    """Read the settings; a value in the environment wins over one in `.env`, which may hold `more_names`, too.

    A relative `PARLEY_HOME` in the file is meant from the file's folder.

    Raises `ConfigurationError` with one line that names the variable and the remedy.
    """
    env_file = env_file or find_env_file()
    if from_file := read_env_file(env_file):
        _refuse_unknown(from_file, env_file, frozenset(more_names))
        # The providers' own variables are read from the environment by litellm.
        os.environ.update({name: value for name, value in from_file.items() if not os.environ.get(name)})
    return settings_from(os.environ)


def read_env_file(env_file: Path | None = None) -> dict[str, str]:
    """Return the variables in `.env`, none where it is missing; raises `ConfigurationError` if it can't be read."""
    env_file = env_file or find_env_file()
    if not env_file.is_file():
        return {}
    try:
        variables = dotenv_values(env_file)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{env_file} can't be read ({error}); it is a text file in UTF-8.") from None
    without = [name for name, value in variables.items() if value is None]
    if without:
        # What is no name may be a line of a secret, such as a private key's.
        name = without[0] if NAME.fullmatch(without[0]) else "a line"
        remedy = "write it as NAME=…" if name == "a line" else f"write {name}=…"
        raise ConfigurationError(f"{env_file}: {name} has no value; {remedy} or remove the line.")
    from_file = {name: value for name, value in variables.items() if value is not None}
    if home := from_file.get("PARLEY_HOME"):
        from_file["PARLEY_HOME"] = str(env_file.absolute().parent / home)
    return from_file


def copy_environment() -> dict[str, str]:
    """Return the variables of this process as they are now; before `load_settings`, without those of `.env`."""
    return dict(os.environ)


@contextmanager
def using_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have these variables and no others during the block."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def try_values(values: Mapping[str, str]) -> Settings:
    """Return the settings as they would be with these values in `.env`; for this process they are."""
    os.environ.update(values)
    return settings_from(os.environ)


def withdraw_values(names: Iterable[str]) -> None:
    """Forget values that were tried; those that `.env` has count again."""
    env_file = find_env_file()
    variables = dotenv_values(env_file) if env_file.is_file() else {}
    for name in names:
        os.environ.pop(name, None)
        if value := variables.get(name):
            os.environ[name] = value


def list_variables(settings: Settings) -> dict[str, str]:
    """Return the environment of another command of ours, which is to look at the same database and folder."""
    own = {"PARLEY_HOME": str(settings.parley_home)}
    if settings.database_url is not None:
        own["DATABASE_URL"] = settings.database_url.get_secret_value()
    return {**os.environ, **own}


def find_named_variable(name: str, prefix: str) -> str | None:
    """Return a variable that a row may name instead of holding a secret: of `mcp_servers` only `MCP_…`, and so on."""
    return os.environ.get(name) if name.startswith(prefix) else None


def find_openai_server(settings: Settings) -> tuple[str, dict[str, str]]:
    """Return where OpenAI's protocol is spoken and the headers for it: of a server of one's own, else of OpenAI."""
    url = settings.openai_base_url or os.environ.get("OPENAI_API_BASE") or OPENAI_URL
    key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else None
    headers = {} if key is None and url == OPENAI_URL else {"Authorization": f"Bearer {key or 'none'}"}
    extra_headers = (
        {header: os.environ.get(name) for name, header in OPENAI_HEADERS.items()} if url == OPENAI_URL else {}
    )
    return url, headers | {header: value for header, value in extra_headers.items() if value}


def prepare_litellm_environment() -> None:
    """Set what litellm reads at its import: its own tables instead of a host's, and no `.env` of its own choosing."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")


def settings_from(environ: Mapping[str, str]) -> Settings:
    """Return the settings that this environment gives; an empty value counts as not set."""
    values: dict[str, str | None] = {
        name.lower(): environ[name] for name in SETTING_NAMES if environ.get(name, "") != ""
    }
    values.setdefault("embedding_model", find_local_model())
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(first_fault(error)) from None


def _refuse_unknown(names: Mapping[str, str], env_file: Path, more_names: frozenset[str]) -> None:
    prefixes = (MCP_PREFIX, A2A_PREFIX, *_list_prefixes(MODULES_FOLDER))
    for name in names:
        if name in SETTING_NAMES | more_names or name.startswith(prefixes):
            continue
        setting_names = [*sorted(SETTING_NAMES | more_names), *USUAL_PROVIDER_NAMES]
        is_slip = name not in setting_names and get_close_matches(name, setting_names, n=1, cutoff=SLIP)
        if PROVIDER_NAME.search(name) and not is_slip:
            continue
        # Of modules that are not part of the program.
        folder = os.environ.get("MODULES_PATH") or names.get("MODULES_PATH")
        in_folder = _list_prefixes(Path(folder)) if folder and Path(folder).is_dir() else []
        if name.startswith((*in_folder, *(f"{point.name.upper()}_" for point in entry_points(group=MODULES_GROUP)))):
            continue
        nearest = get_close_matches(name.upper(), setting_names, n=1, cutoff=0.0)[0]
        raise ConfigurationError(
            f"{env_file}: unknown setting {name}; did you mean {nearest}? Correct or remove the line."
        )


def _list_prefixes(folder: Path) -> list[str]:
    return [f"{path.name.upper()}_" for path in folder.iterdir() if path.is_dir()]


@dataclass(frozen=True, slots=True)
class Secrets:
    """The two secrets that are made at the first run when they are not given."""

    api_token: str = field(repr=False)
    secret_keys: tuple[str, ...] = field(repr=False)

    @property
    def signing_keys(self) -> list[str]:
        """Return the keys as itsdangerous takes them: it signs with the last one; our setting has the newest first."""
        return list(reversed(self.secret_keys))


def load_secrets(settings: Settings) -> Secrets:
    """Return `API_TOKEN` and the comma-separated `SECRET_KEY`s, from the settings or from files in `PARLEY_HOME`."""
    api_token = (
        settings.api_token.get_secret_value() if settings.api_token else make_secret(settings.parley_home / "api_token")
    )
    return Secrets(api_token, load_secret_keys(settings))


def load_secret_keys(settings: Settings) -> tuple[str, ...]:
    """Return the comma-separated `SECRET_KEY`s, from the settings or from the file in `PARLEY_HOME`."""
    keys = (
        settings.secret_key.get_secret_value()
        if settings.secret_key
        else make_secret(settings.parley_home / "secret_key")
    )
    secret_keys = tuple(key.strip() for key in keys.split(",") if key.strip())
    if not secret_keys:
        raise ConfigurationError("SECRET_KEY holds no key; write one, or several with commas between, or remove it.")
    return secret_keys


# Variables whose names say that they hold a secret.
SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)S?$")


def list_secret_values(settings: Settings, secrets: Secrets) -> set[str]:
    """Return the values that no reply may contain: secrets in settings and variables, passwords in addresses.

    A value that is short and without a digit is left out: it may be an ordinary word.
    """
    setting_values = [secret.get_secret_value() for _, secret in settings if isinstance(secret, SecretStr)]
    environment_values = [value for name, value in os.environ.items() if SECRET_NAME.search(name)]
    passwords: list[str] = []
    for address in (text for text in (*setting_values, *os.environ.values()) if "://" in text):
        with suppress(ValueError):
            passwords.append(unquote(urlsplit(address).password or ""))
    values = [*setting_values, *environment_values, *passwords, secrets.api_token, *secrets.secret_keys]
    parts = [part.strip() for value in values for part in (value, *value.split(","))]
    return {part for part in parts if len(part) >= 12 or (len(part) >= 8 and any(map(str.isdigit, part)))}
