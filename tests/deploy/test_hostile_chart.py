"""Values of a hurried or a hostile hand: none breaks out of its place, publishes a secret, or stops the whole."""

from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import pytest
from pydantic import SecretStr

from adapters.cli.platforms import list_setting_names
from adapters.folders import list_folders
from shared.settings import SETTING_NAMES, Settings
from tests.deploy.test_helm import OPEN, SCALED, SINGLE, SPLIT, WHOLE, pods_of, render, run_helm, with_value
from tests.support.source_tree import ROOT

BREAKOUT = 'x\n  evil: "yes"}, {evil: yes #'
# Of YAML's older version, as Kubernetes reads it: no text, unless it stands in quotes.
NO_TEXTS = ["123", "true", "null", "1e5", BREAKOUT]
OF_SECRETS = [
    "DATABASE_URL",
    *(name for name in sorted(SETTING_NAMES) if name.endswith(("_KEY", "_TOKEN"))),
    *(name for name in sorted(list_setting_names()) if name.endswith(("_TOKEN", "_SECRET"))),
    "ANTHROPIC_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "MCP_PASSWORD",
    "OTEL_EXPORTER_OTLP_HEADERS",
]
# Where a value is a name that stands elsewhere in the cluster, and the values beside which it counts.
NAMES: tuple[tuple[dict[str, Any], tuple[str, ...]], ...] = (
    (WHOLE, ("secretName", "database.cluster.storageClass", "database.cluster.imageName")),
    (SPLIT, ("database.secretName", "database.secretKey")),
    (SCALED, ("worker.autoscaling.secretName", "worker.autoscaling.secretKey")),
    (OPEN, ("ingress.className", "ingress.tlsSecretName")),
    (SINGLE, ("storage.className",)),
)


def replace(value: Any, old: str, new: str) -> Any:
    """Return an object with one text in the place of another; the names of its fields stay."""
    if isinstance(value, dict):
        return {name: replace(inner, old, new) for name, inner in value.items()}
    if isinstance(value, list):
        return [replace(inner, old, new) for inner in value]
    return value.replace(old, new) if isinstance(value, str) else value


def settings_of(values: dict[str, Any]) -> dict[str, str]:
    (settings,) = [document["data"] for document in render(values) if document["kind"] == "ConfigMap"]
    return dict(settings)


@pytest.mark.parametrize("text", NO_TEXTS)
def test_a_name_stays_one_text_whatever_it_is(text: str) -> None:
    for values, names in NAMES:
        hostile, usual = values, values
        for number, name in enumerate(names):
            hostile = with_value(hostile, tuple(name.split(".")), text)
            usual = with_value(usual, tuple(name.split(".")), f"usual-{number}")
        manifests: Any = render(usual)
        for number, name in enumerate(names):
            assert f"usual-{number}" in str(manifests), name
            manifests = replace(manifests, f"usual-{number}", text)

        assert render(hostile) == manifests


def test_a_release_may_be_called_by_a_number() -> None:
    rendered = run_helm("template", "2026", values=WHOLE)

    assert rendered.returncode == 0
    assert "app.kubernetes.io/instance: 2026" not in rendered.stdout


@pytest.mark.parametrize(
    ("value", "text"),
    [(5_000_000, "5000000"), (0.5, "0.5"), (True, "true"), (BREAKOUT, BREAKOUT), ("1e6", "1e6"), (-1, "-1")],
)
def test_a_setting_is_what_was_written(value: Any, text: str) -> None:
    assert settings_of(SPLIT | {"settings": {"SOMETHING": value}})["SOMETHING"] == text


def test_a_setting_of_the_chart_may_be_changed_only_where_the_rest_does_not_rely_on_it() -> None:
    assert settings_of(SPLIT | {"settings": {"LOG_FORMAT": "text"}})["LOG_FORMAT"] == "text"
    assert settings_of(SPLIT | {"settings": {"PUBLIC_URL": "https://a.example"}})["PUBLIC_URL"] == "https://a.example"
    beside: dict[str, dict[str, Any]] = {"PORT": SPLIT, "PARLEY_HOME": SINGLE, "S3_BUCKET": SPLIT, "PUBLIC_URL": OPEN}
    for name, values in beside.items():
        result = run_helm("template", "chat", values=values | {"settings": {name: "other"}})
        assert f"settings.{name}: the chart sets it" in result.stderr


def test_every_secret_among_the_settings_is_known_to_the_chart_and_refused_with_the_remedy() -> None:
    of_program = {name.upper() for name, field in Settings.model_fields.items() if _is_secret(field.annotation)}
    modules = [path.name for path in (ROOT / "modules").iterdir() if (path / "__init__.py").is_file()]
    kinds = [(name, kind) for name in modules for kind in _settings_in(f"modules.{name}")]
    kinds += [(name, kind) for name in list_folders() for kind in _settings_in(f"adapters.{name}.settings")]
    of_parts = {f"{name}_{field}".upper() for name, kind in kinds for field, hint in _hints(kind) if _is_secret(hint)}

    assert {"DISCORD_TOKEN", "RESEARCH_BRAVE_API_KEY", "DATABASE_URL"} <= of_program | of_parts
    for name in sorted(of_program | of_parts | set(OF_SECRETS)):
        result = run_helm("template", "chat", values=SPLIT | {"settings": {name: "sk-123"}})
        assert f"settings.{name}: " in result.stderr
        assert "sk-123" not in result.stdout + result.stderr
        if name in OF_SECRETS:
            assert f"settings.{name}: whoever may read the ConfigMap would read this secret" in result.stderr


def _is_secret(hint: Any) -> bool:
    return SecretStr.__name__ in str(hint)


def _settings_in(module: str) -> list[Any]:
    try:
        values = vars(import_module(module)).values()
    except ModuleNotFoundError:
        return []
    kinds = [value for value in values if isinstance(value, type) and value.__name__.endswith("Settings")]
    return [kind for kind in kinds if kind.__module__.startswith(module.removesuffix(".settings"))]


def _hints(kind: Any) -> list[tuple[str, Any]]:
    if is_dataclass(kind):
        return [(field.name, field.type) for field in fields(kind)]
    return [(name, field.annotation) for name, field in getattr(kind, "model_fields", {}).items()]


def test_a_password_in_an_address_is_refused_and_an_address_alone_is_not() -> None:
    result = run_helm("template", "chat", values=SPLIT | {"settings": {"HTTPS_PROXY": "http://ann:pw@proxy:3128"}})

    assert "settings.HTTPS_PROXY: whoever may read" in result.stderr
    assert "HTTPS_PROXY" in settings_of(SPLIT | {"settings": {"HTTPS_PROXY": "http://proxy:3128/a@b"}})


@pytest.mark.parametrize("name", ["web", "worker", "migrate"])
def test_a_platform_takes_no_other_programs_place(name: str) -> None:
    result = run_helm("template", "chat", values=SPLIT | {"platforms": {name: {"replicas": 1}}})

    assert f"platforms.{name}: it is no platform" in result.stderr


def test_workers_that_would_not_be_scaled_are_not_promised() -> None:
    result = run_helm("template", "chat", values=SINGLE | {"worker": SCALED["worker"]})
    assert "worker.autoscaling: without s3.endpoint" in result.stderr

    result = run_helm("template", "chat", values=with_value(SCALED, ("worker", "autoscaling", "minReplicas"), 11))
    assert "worker.autoscaling: minReplicas is more than maxReplicas" in result.stderr


def test_a_setting_with_which_no_program_starts_leaves_the_old_programs_where_they_are() -> None:
    deployments = {
        document["metadata"]["labels"]["app.kubernetes.io/component"]: document["spec"]
        for document in render(WHOLE)
        if document["kind"] == "Deployment"
    }

    # Two operators would write the same rows.
    assert deployments.pop("operator")["strategy"] == {"type": "Recreate"}
    assert len(deployments) == 3
    for deployment in deployments.values():
        assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
        # Workers and platforms listen on nothing: an engine finds them ready as soon as they run.
        assert deployment["minReadySeconds"] == 15


def test_pods_ask_for_names_and_reach_what_is_in_the_cluster() -> None:
    (policy,) = [document for document in render(WHOLE) if document["kind"] == "NetworkPolicy"]
    names, rest = policy["spec"]["egress"]

    # A cache of names has an address of the node, 169.254.20.10.
    assert names == {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}
    # Where networks know pods by what they are, a block of addresses does not hold them.
    assert {"namespaceSelector": {}} in rest["to"]


def test_no_cloud_hands_out_the_credentials_of_a_node() -> None:
    (policy,) = [document for document in render(WHOLE) if document["kind"] == "NetworkPolicy"]

    blocks = [peer["ipBlock"] for peer in policy["spec"]["egress"][1]["to"] if "ipBlock" in peer]
    addresses = {"169.254.0.0/16", "168.63.129.16/32", "100.100.100.200/32", "fd00:ec2::/32", "fd20:ce::254/128"}
    assert addresses <= {closed for block in blocks for closed in block["except"]}


def test_the_page_is_reached_while_no_worker_is_there_which_is_what_brings_one_back() -> None:
    none_left = with_value(SCALED, ("worker", "autoscaling", "minReplicas"), 0)
    (container,) = pods_of(render(none_left))["chat-parley-web"]["containers"]

    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"


def test_a_pod_has_as_long_as_it_takes_to_hand_over_and_a_drain_is_never_blocked() -> None:
    for pod in pods_of(render(WHOLE)).values():
        (container,) = pod["containers"]
        pause = 5 if container.get("lifecycle") == {"preStop": {"exec": {"command": ["sleep", "5"]}}} else 0
        # After 27 s the program has ended by itself.
        assert pod["terminationGracePeriodSeconds"] >= pause + 27 + 5
    for document in render(WHOLE | {"web": {"replicas": 1}}):
        if document["kind"] == "PodDisruptionBudget":
            assert document["spec"]["maxUnavailable"] == 1
            assert "minAvailable" not in document["spec"]
