"""docker-compose.yml, as docker's own compose resolves it for each profile; PgBouncer as it is set up there."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr
from typer.testing import CliRunner

from adapters.cli import app
from adapters.cli.platforms import list_setting_names
from adapters.folders import list_folders
from shared.db.database import check, locate
from shared.db.hosts import URL
from shared.settings import SETTING_NAMES, Settings
from tests.support.given_database import given_database
from tests.support.pgbouncer import pooled
from tests.support.source_tree import ROOT
from tests.test_packaging import FOR_COMPOSE

COMPOSE = Path(sys.executable).with_name("docker-compose")
FILE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SECRETS = {name: f"{name}-value" for name in ("API_TOKEN", "POSTGRES_PASSWORD", "S3_SECRET_KEY", "SECRET_KEY")}
OF_OTHERS = frozenset({"postgres", "pgbouncer", "s3"})
PROFILES = {
    ("single",): {"migrate": ["migrate"], "parley": ["run"]},
    ("scaled",): {"migrate": ["migrate"], "web": ["adapter", "web"], "worker": ["worker"]},
    ("scaled", "discord", "slack"): {
        "migrate": ["migrate"],
        "web": ["adapter", "web"],
        "worker": ["worker"],
        "discord": ["adapter", "discord"],
        "slack": ["adapter", "slack"],
    },
}


def compose(*arguments: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run docker's compose in the project's folder with these variables and no `.env`."""
    command = [str(COMPOSE), "--project-name", "parley", "--env-file", os.devnull, *arguments]
    environment = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@cache
def services_of(*profiles: str) -> dict[str, Any]:
    """Return the services of these profiles, with all variables put in."""
    options = [word for profile in profiles for word in ("--profile", profile)]
    resolved = compose(*options, "config", "--format", "json", variables=SECRETS)
    assert resolved.returncode == 0, resolved.stderr
    # Not a word about a variable that is not set, or a key that is not known.
    assert resolved.stderr == ""
    services: dict[str, Any] = json.loads(resolved.stdout)["services"]
    return services


def ours_of(*profiles: str) -> dict[str, Any]:
    return {name: service for name, service in services_of(*profiles).items() if name not in OF_OTHERS}


@pytest.mark.parametrize("profiles", PROFILES, ids="-".join)
def test_each_profile_starts_what_it_says_and_parley_understands_each_command(profiles: tuple[str, ...]) -> None:
    services = ours_of(*profiles)

    assert {name: service["command"] for name, service in services.items()} == PROFILES[profiles]
    for service in services.values():
        command, *names = service["command"]
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0
        assert set(names) <= {"web", *list_folders()}
    servers = {"postgres", "s3"} if profiles == ("single",) else {"pgbouncer", "postgres", "s3"}
    assert services_of(*profiles).keys() - services.keys() == servers


def test_the_scaled_profile_has_two_workers_which_can_become_more() -> None:
    worker = services_of("scaled")["worker"]

    assert worker["deploy"]["replicas"] == 2
    assert not {"container_name", "ports"} & worker.keys()


@pytest.mark.parametrize("profiles", PROFILES, ids="-".join)
def test_programs_wait_for_the_migration_which_never_goes_through_the_pooler(profiles: tuple[str, ...]) -> None:
    database = "pgbouncer" if "scaled" in profiles else "postgres"
    for name, service in ours_of(*profiles).items():
        conditions = {other: how["condition"] for other, how in service["depends_on"].items()}
        if name == "migrate":
            assert service["restart"] == "no"
            assert conditions == {"postgres": "service_healthy"}
            assert "@postgres:5432/" in service["environment"]["DATABASE_URL"]
        else:
            assert service["restart"] == "unless-stopped"
            assert conditions == {
                "migrate": "service_completed_successfully",
                database: "service_healthy",
                "s3": "service_healthy",
            }
            assert f"@{database}:5432/" in service["environment"]["DATABASE_URL"]
            direct = "@postgres:5432/" in service["environment"].get("DATABASE_DIRECT_URL", "")
            assert direct == (database == "pgbouncer")


@pytest.mark.parametrize("profiles", PROFILES, ids="-".join)
def test_every_program_runs_without_rights_on_a_read_only_disk_with_settings_alone(profiles: tuple[str, ...]) -> None:
    for service in ours_of(*profiles).values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "user" not in service
        assert service["environment"].keys() <= SETTING_NAMES | set(list_setting_names())
    for service in services_of(*profiles).values():
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not {"privileged", "network_mode", "pid"} & service.keys()


@pytest.mark.parametrize("profiles", PROFILES, ids="-".join)
def test_only_the_page_is_reached_and_from_this_machine_alone(profiles: tuple[str, ...]) -> None:
    ports = {name: service["ports"] for name, service in services_of(*profiles).items() if "ports" in service}

    assert ports.keys() == {"web" if "scaled" in profiles else "parley"}
    ((port,),) = ports.values()
    assert (port["host_ip"], port["published"], port["target"]) == ("127.0.0.1", "8080", 8080)


def test_the_servers_keep_their_state_in_the_same_volumes_whatever_the_profile() -> None:
    single, scaled = services_of("single"), services_of("scaled")

    for name in ("postgres", "s3"):
        assert single[name] == scaled[name]
        assert [volume["type"] for volume in single[name]["volumes"]] == ["volume"]
    for name in ("postgres", "s3", "pgbouncer"):
        assert scaled[name]["healthcheck"]["test"]


def test_every_image_of_others_is_named_by_version_and_digest() -> None:
    for name in OF_OTHERS:
        assert re.search(r":v?\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}$", FILE["services"][name]["image"]), name


@pytest.mark.parametrize("name", SECRETS)
def test_a_missing_secret_is_named_with_the_remedy(name: str) -> None:
    refusal = compose("--profile", "single", "config", variables={**SECRETS, name: ""})

    assert refusal.returncode != 0
    assert f"set {name} in .env" in refusal.stderr


def test_the_example_has_every_name_that_compose_reads() -> None:
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    example = (ROOT / ".env.example").read_text("utf-8")

    assert set(re.findall(r"\$\{(\w+):\?", text)) == SECRETS.keys()
    assert set(re.findall(r"(?<!\$)\$\{(\w+)", text)) <= SETTING_NAMES | FOR_COMPOSE
    assert all(f"#{name}=" in example for name in SECRETS)


async def test_parley_takes_the_pooler_as_it_is_set_up_and_the_server_has_room_for_it(postgres: URL) -> None:
    services = services_of("scaled")
    variables = services["pgbouncer"]["environment"]
    # Its image writes these into pgbouncer.ini, in small letters.
    names = ("DEFAULT_POOL_SIZE", "MAX_CLIENT_CONN")
    settings = {name.lower(): variables[name] for name in names}

    async with (
        given_database(postgres) as upstream,
        pooled(upstream, variables["POOL_MODE"], ignore_startup_parameters="extra_float_digits", **settings) as address,
    ):
        urls = [SecretStr(each.libpq(as_owner=True)) for each in (address, upstream)]
        server = await check(locate(Settings(database_url=urls[0], database_direct_url=urls[1])))
        assert server.has_sessions_apart

    (most,) = [word for word in services["postgres"]["command"] if word.startswith("max_connections=")]
    assert int(variables["DEFAULT_POOL_SIZE"]) <= int(most.partition("=")[2]) - 20
