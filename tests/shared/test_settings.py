"""Settings: names, defaults, error messages, and the protection of secrets."""

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from adapters.cli.platforms import list_setting_names
from shared.errors import ConfigurationError
from shared.settings import SETTING_NAMES, Settings, load_secrets, load_settings, settings_from
from shared.settings.home import make_private

ROOT = Path(__file__).parents[2]
DEFAULTS: dict[str, Any] = {
    "PARLEY_HOME": ROOT / ".parley",
    "HOST": "127.0.0.1",
    "PORT": 8080,
    "MAX_AGENT_ITERATIONS": 10,
    "MAX_TURNS": 200,
    "MAX_TURNS_PER_PERSON": 10,
    "MAX_TURNS_PER_SERVER": 100,
    "WAVE_WIDTH": 8,
    "TURN_DEADLINE_SECONDS": 180,
    "HISTORY_TOKENS": 16_000,
    "TOOL_RESULT_MAX_CHARS": 8000,
    "TOOL_RESULT_KEPT_CHARS": 256_000,
    "VOICE_MAX_MB": 20,
    "VOICE_MAX_MINUTES": 10,
    "VOICE_TOKENS_PER_MINUTE": 1000,
    "DEFAULT_GUEST_TOKEN_BUDGET": 50000,
    "DELIVERY_HOURS": 24,
    "DEFAULT_GUEST_MODULES": ("knowledge", "file_manager", "calendar", "calculator"),
    "MCP_COMMANDS": True,
    "MEMORY_RECALL_LIMIT": 5,
    "PLANNER_PERCENT": 0,
    "MAX_BODY_MB": 40,
    "SANDBOX_PROCESSES": 4,
    "CATCH_UP_HOURS": 24,
    "RETENTION_INBOX_DAYS": 365,
    "RETENTION_OUTBOX_DAYS": 365,
    "RETENTION_EVENTS_DAYS": 365,
    "RETENTION_CONFIRMATIONS_DAYS": 365,
    "RETENTION_LOGS_DAYS": 400,
    "RETENTION_SCHEDULED_JOBS_DAYS": 90,
    "MAX_SCHEDULED_JOBS_PER_PERSON": 50,
    "MIN_SCHEDULE_SECONDS": 300,
    "LLM_MODELS": (),
    "LLM_PROTOCOLS": {},
    "EGRESS_ALLOW": (),
    "S3_BUCKET": "parley",
    "S3_SECURE": True,
    "LOG_LEVEL": "INFO",
    "LOG_FORMAT": "console",
    "FILE_QUOTA_GUEST_MB": 100,
    "FILE_QUOTA_USER_MB": 500,
    "FILE_QUOTA_ADMIN_MB": 2000,
    "FILE_QUOTA_OWNER_MB": 10_000,
    "WEB_GUESTS": False,
    "FORWARDED_ALLOW_IPS": ("127.0.0.1", "::1"),
    "OIDC_NAME": "your organisation",
    "OIDC_EMAIL_DOMAINS": (),
    "OIDC_GROUPS": (),
}
UNSET = """
DATABASE_URL DATABASE_DIRECT_URL BUS_URL BUS_CA_FILE CELLS EMBEDDING_MODEL SUMMARY_MODEL DEBUG_MOCK_RESPONSES
OPENAI_API_KEY OPENAI_BASE_URL S3_ENDPOINT S3_ACCESS_KEY S3_SECRET_KEY PUBLIC_URL API_TOKEN SECRET_KEY MODULES_PATH
SKILLS_PATH VOICE_TRANSCRIPTION_MODEL OTEL_EXPORTER_OTLP_ENDPOINT WORKERS
OIDC_ISSUER OIDC_CLIENT_ID OIDC_CLIENT_SECRET
"""
SECRETS = {
    **dict.fromkeys(("DATABASE_URL", "DATABASE_DIRECT_URL"), "postgresql://parley:hunter2@localhost/parley"),
    "BUS_URL": "nats://parley:hunter2@localhost:4222",
    **dict.fromkeys(("OPENAI_API_KEY", "S3_ACCESS_KEY", "S3_SECRET_KEY", "API_TOKEN", "SECRET_KEY"), "hunter2"),
    "OIDC_CLIENT_SECRET": "hunter2",
}


@pytest.fixture
def environment() -> Iterator[None]:
    """Remove all settings from the environment; restore it after the test."""
    saved = dict(os.environ)
    for name in SETTING_NAMES & saved.keys():
        del os.environ[name]
    yield
    os.environ.clear()
    os.environ.update(saved)


def dotenv(folder: Path, *lines: str) -> Path:
    path = folder / ".env"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ConfigurationError) as error:
        load_settings(path)
    return str(error.value)


def test_every_setting_has_its_documented_default() -> None:
    # Unset, it is the local model where that is installed.
    settings = settings_from({"EMBEDDING_MODEL": "off"})

    assert {name: getattr(settings, name.lower()) for name in DEFAULTS} == DEFAULTS
    unset = UNSET.split()
    assert {name: getattr(settings, name.lower()) for name in unset} == dict.fromkeys(unset)
    assert DEFAULTS.keys() | set(unset) == SETTING_NAMES


def test_settings_from_the_environment_are_converted_to_their_types() -> None:
    settings = settings_from(
        {
            "PORT": "80",
            "LLM_MODELS": "openai/gpt-4.1-mini, anthropic/claude-sonnet-4-5,",
            "LLM_PROTOCOLS": "ollama/phi=tool_tag, openai/small=fenced",
            "TURN_DEADLINE_SECONDS": "2.5",
            "S3_SECURE": "false",
            "PARLEY_HOME": "/var/lib/parley",
        }
    )

    assert settings.port == 80
    assert settings.llm_models == ("openai/gpt-4.1-mini", "anthropic/claude-sonnet-4-5")
    assert settings.llm_protocols == {"ollama/phi": "tool_tag", "openai/small": "fenced"}
    assert settings.turn_deadline_seconds == 2.5
    assert settings.s3_secure is False
    assert settings.parley_home == Path("/var/lib/parley")


def test_an_empty_value_counts_as_not_set() -> None:
    assert settings_from(dict.fromkeys(SETTING_NAMES, "")) == settings_from({})


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        settings_from({}).port = 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "eighty"),
        ("PORT", "65536"),
        ("MAX_AGENT_ITERATIONS", "0"),
        ("WAVE_WIDTH", "-1"),
        ("WORKERS", "0"),
        ("WORKERS", "-1"),
        ("WORKERS", "two"),
        ("WORKERS", "1.5"),
        ("TURN_DEADLINE_SECONDS", "0"),
        ("TOOL_RESULT_MAX_CHARS", "10"),
        ("DEFAULT_GUEST_TOKEN_BUDGET", "-5"),
        ("MEMORY_RECALL_LIMIT", "51"),
        ("PLANNER_PERCENT", "101"),
        ("S3_SECURE", "perhaps"),
        ("LOG_LEVEL", "LOUD"),
        ("LOG_FORMAT", "xml"),
        ("LLM_PROTOCOLS", "openai/small=telepathy"),
        ("LLM_PROTOCOLS", "openai/small"),
        ("BUS_URL", "localhost:4222"),
        ("BUS_URL", "redis://localhost:4222"),
        ("BUS_URL", "nats://localhost:4222,http://localhost"),
        ("BUS_CA_FILE", "/nowhere.pem"),
    ],
)
def test_an_invalid_value_is_reported_in_one_line_with_the_variable_and_the_remedy(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        settings_from({name: value})

    line = str(error.value)
    assert line.startswith(f"{name} is wrong: ")
    assert line.endswith(" Correct it in the environment or in .env.")
    assert "\n" not in line


@pytest.mark.usefixtures("environment")
def test_the_environment_takes_precedence_over_dotenv(tmp_path: Path) -> None:
    os.environ["PORT"] = "81"
    path = dotenv(tmp_path, "PORT=80", "HOST=0.0.0.0", "export LOG_LEVEL='DEBUG'", "# a comment", "")

    settings = load_settings(path)

    assert (settings.port, settings.host, settings.log_level) == (81, "0.0.0.0", "DEBUG")  # noqa: S104  # an example


@pytest.mark.usefixtures("environment")
def test_an_empty_variable_does_not_hide_the_value_in_dotenv(tmp_path: Path) -> None:
    os.environ["PORT"] = ""

    assert load_settings(dotenv(tmp_path, "PORT=80")).port == 80


@pytest.mark.usefixtures("environment")
def test_variables_of_providers_in_dotenv_are_set_in_the_environment(tmp_path: Path) -> None:
    names = ("ANTHROPIC_API_KEY", "XAI_API_KEY", "OPENROUTER_API_BASE", "AWS_REGION_NAME", "HTTPS_PROXY")
    load_settings(dotenv(tmp_path, *(f"{name}=given" for name in names)))

    assert [os.environ[name] for name in names] == ["given"] * len(names)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("unknown", "nearest"),
    [
        ("LLM_MODEL", "LLM_MODELS"),
        ("OPNEAI_API_KEY", "OPENAI_API_KEY"),
        ("ANTROPIC_API_KEY", "ANTHROPIC_API_KEY"),
        ("S3_ENDPIONT", "S3_ENDPOINT"),
        ("MAX_ITERATIONS", "MAX_AGENT_ITERATIONS"),
        ("port", "PORT"),
    ],
)
def test_an_unknown_name_in_dotenv_names_the_nearest_known_one(tmp_path: Path, unknown: str, nearest: str) -> None:
    path = dotenv(tmp_path, f"{unknown}=1")

    message = f"{path}: unknown setting {unknown}; did you mean {nearest}? Correct or remove the line."
    assert refusal(path) == message
    assert unknown not in os.environ


@pytest.mark.usefixtures("environment")
def test_unknown_names_in_the_environment_are_none_of_our_business(tmp_path: Path) -> None:
    os.environ["PUBLIC_ULR"] = "x"

    assert load_settings(tmp_path / ".env").public_url is None


@pytest.mark.usefixtures("environment")
def test_home_and_env_file_are_those_of_the_project_wherever_in_it_one_stands(tmp_path: Path) -> None:
    project, below, elsewhere = tmp_path / "project", tmp_path / "project" / "docs" / "old", tmp_path / "elsewhere"
    for folder in (below, elsewhere):
        folder.mkdir(parents=True)
    (project / "pyproject.toml").write_text('[project]\nname = "parley-agent"\n')
    dotenv(project, "PORT=81")

    with chdir(below):
        assert (load_settings().parley_home, load_settings().port) == (project / ".parley", 81)
        del os.environ["PORT"]
    (project / "docs" / ".parley").mkdir()
    with chdir(below):
        assert Settings().parley_home == project / "docs" / ".parley"
    with chdir(elsewhere):
        # The project that the program runs from.
        assert Settings().parley_home == ROOT / ".parley"
        dotenv(elsewhere, "PARLEY_HOME=data")
        assert load_settings().parley_home == elsewhere / "data"
    assert not (below / ".parley").exists()


@pytest.mark.usefixtures("environment")
def test_a_line_of_dotenv_without_a_value_and_a_file_that_is_no_text_are_one_line(tmp_path: Path) -> None:
    path = dotenv(tmp_path, "PUBLIC_URL")
    assert refusal(path) == f"{path}: PUBLIC_URL has no value; write PUBLIC_URL=… or remove the line."

    # The second line of a secret is told to nobody.
    path.write_text("SECRET_KEY=abc\nMIIEvQIBADANBgkq\n")
    assert refusal(path) == f"{path}: a line has no value; write it as NAME=… or remove the line."

    path.write_bytes(b"PORT=\xff\xfe")
    assert "is a text file in UTF-8" in refusal(path)


@pytest.mark.usefixtures("environment")
def test_the_example_file_is_valid_when_every_line_is_taken(tmp_path: Path) -> None:
    example = (Path(__file__).parents[2] / ".env.example").read_text("utf-8").splitlines()
    lines = [line.removeprefix("#") for line in example if line.startswith("#") and not line.startswith("# ")]

    settings = load_settings(dotenv(tmp_path, *lines), more_names=list_setting_names())

    assert len(settings.llm_models) == 2
    assert len(lines) > 15


def test_the_representation_of_settings_contains_no_secrets(tmp_path: Path) -> None:
    settings = settings_from({**SECRETS, "PARLEY_HOME": str(tmp_path)})

    for text in (repr(settings), str(settings), str(settings.model_dump()), settings.model_dump_json()):
        assert "hunter2" not in text
    assert "hunter2" not in repr(load_secrets(settings))
    with pytest.raises(ConfigurationError) as error:
        settings_from({**SECRETS, "PORT": "hunter2"})
    assert "hunter2" not in str(error.value)


def test_missing_secrets_are_generated_once_in_private_files(tmp_path: Path) -> None:
    settings = Settings(parley_home=tmp_path / "home")

    first, second = load_secrets(settings), load_secrets(settings)

    assert first == second
    assert len(first.api_token) == len(first.secret_keys[0]) == 64
    assert first.api_token != first.secret_keys[0]
    for name in ("api_token", "secret_key"):
        assert (tmp_path / "home" / name).stat().st_mode & 0o777 == 0o600


def test_several_secret_keys_are_allowed_and_an_empty_list_is_refused(tmp_path: Path) -> None:
    parameters = {"PARLEY_HOME": str(tmp_path), "API_TOKEN": "token"}

    assert load_secrets(settings_from({**parameters, "SECRET_KEY": "new, old"})).secret_keys == ("new", "old")
    with pytest.raises(ConfigurationError, match="SECRET_KEY holds no key"):
        load_secrets(settings_from({**parameters, "SECRET_KEY": " , "}))


@dataclass(frozen=True)
class DiceSettings:
    sides: int = 6
    greeting: str = "Good luck!"


@pytest.mark.usefixtures("environment")
def test_settings_of_a_module_have_its_prefix(tmp_path: Path) -> None:
    os.environ.update({"DICE_SIDES": "20", "DICE_GREETING": "", "SIDES": "3"})

    assert Settings().of_module(DiceSettings, "dice") == DiceSettings(sides=20)

    os.environ["DICE_SIDES"] = "many"
    with pytest.raises(ConfigurationError, match=r"^DICE_SIDES is wrong: .* Correct it in the environment or in \.env"):
        Settings().of_module(DiceSettings, "dice")
    load_settings(dotenv(tmp_path, "KNOWLEDGE_ANYTHING=1"))


@pytest.mark.usefixtures("environment")
def test_settings_of_a_module_from_outside_may_stand_in_dotenv(tmp_path: Path) -> None:
    (tmp_path / "games" / "dice").mkdir(parents=True)
    path = dotenv(tmp_path, f"MODULES_PATH={tmp_path / 'games'}", "DICE_SIDES=20")

    settings = load_settings(path)

    assert settings.modules_path == tmp_path / "games"
    assert settings.of_module(DiceSettings, "dice") == DiceSettings(sides=20)


def test_a_folder_of_modules_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").touch()
    (tmp_path / "file").touch()

    for path, problem in (
        (tmp_path / "missing", f"there is no folder {tmp_path / 'missing'} that can be read"),
        (tmp_path / "file", f"there is no folder {tmp_path / 'file'} that can be read"),
        (tmp_path, f"the folder {tmp_path} is a module itself; name the folder that holds it"),
    ):
        with pytest.raises(ConfigurationError) as error:
            settings_from({"MODULES_PATH": str(path)})
        assert str(error.value) == (f"MODULES_PATH is wrong: {problem}. Correct it in the environment or in .env.")


def test_programs_that_start_concurrently_use_the_same_secrets(tmp_path: Path) -> None:
    settings = Settings(parley_home=tmp_path)
    with ThreadPoolExecutor(16) as together:
        tokens = set(together.map(lambda _: load_secrets(settings).api_token, range(64)))

    assert [len(token) for token in tokens] == [64]
    assert (tmp_path / "api_token").stat().st_mode & 0o777 == 0o600


def test_the_home_and_its_folders_are_for_their_owner_alone_also_those_that_were_open(tmp_path: Path) -> None:
    home = tmp_path / "outer" / "home"
    (home / "files").mkdir(parents=True)
    for folder in (home, home / "files"):
        folder.chmod(0o755)
    (home / "link").symlink_to(tmp_path)
    before = tmp_path.stat().st_mode

    make_private(home)
    make_private(tmp_path / "new" / "home")

    for folder in (home, home / "files", tmp_path / "new" / "home"):
        assert stat.S_IMODE(folder.stat().st_mode) & 0o767 == 0o700
    assert tmp_path.stat().st_mode == before


def test_a_folder_such_as_tmp_is_not_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)

    make_private(tmp_path)

    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777
