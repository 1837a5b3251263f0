"""The chart for Kubernetes, rendered by the real helm and checked against Kubernetes' own schemas."""

import copy
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from adapters.cli.platforms import list_setting_names
from adapters.folders import list_folders
from adapters.kubernetes.manifests import GROUP, SPECS
from shared.settings import SETTING_NAMES
from tests.support.source_tree import ROOT

CHART = ROOT / "deploy/helm/parley"
HELM = Path(sys.executable).with_name("helm")
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text("utf-8"))
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
# What each value is checked beside.
SPLIT = {"secretName": "parley", "s3": {"endpoint": "s3:9000"}, "platforms": {"discord": {"replicas": 1}}}
CLUSTER = SPLIT | {"database": {"cluster": {"enabled": True}, "pooler": {"enabled": True}}}
OPEN = SPLIT | {"ingress": {"enabled": True, "host": "chat.example.org", "tlsSecretName": "certificate"}}
SCALED = SPLIT | {"worker": {"autoscaling": {"enabled": True, "secretName": "queue"}}}
MONITORED = {"serviceMonitor": {"enabled": True}, "networkPolicy": {"enabled": True}}
WHOLE = CLUSTER | OPEN | SCALED | MONITORED | {"operator": {"enabled": True}}
SINGLE = {"secretName": "parley"}
# Their definitions come with their operators; Kubernetes itself knows nothing of them.
OF_OPERATORS = frozenset({"Cluster", "Pooler", "ScaledObject", "ServiceMonitor", "TriggerAuthentication"})
# Values that only count where another one has this value.
BESIDE: dict[str, dict[str, Any]] = {
    "storage.size": SINGLE,
    "storage.className": SINGLE,
    "database.secretName": SPLIT,
    "database.secretKey": SPLIT,
    # How many workers there are says the autoscaler otherwise.
    "worker.replicas": SPLIT,
    "worker.autoscaling.minReplicas": SPLIT
    | {"worker": {"autoscaling": {"enabled": True, "secretName": "queue", "maxReplicas": 100}}},
    "database.cluster.enabled": SPLIT | {"database": {"cluster": {"enabled": True}}},
}


def run_helm(*arguments: str, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    command = [str(HELM), *arguments, str(CHART), "--values", "-"]
    # JSON is YAML that no reader of another version of YAML takes otherwise.
    return subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)


@cache
def _render(values: str) -> tuple[dict[str, Any], ...]:
    rendered = run_helm("template", "chat", values=json.loads(values))
    assert rendered.returncode == 0, rendered.stderr
    return tuple(document for document in yaml.load_all(rendered.stdout, yaml.CSafeLoader) if document)


def render(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects that helm makes of the chart with these values."""
    return copy.deepcopy(list(_render(json.dumps(values, sort_keys=True))))


def pods_of(documents: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the specification of the pods of each Deployment and Job, by its name."""
    return {
        document["metadata"]["name"]: document["spec"]["template"]["spec"]
        for document in documents
        if document["kind"] in {"Deployment", "Job"}
    }


def leaves(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield each value that can be set, with its schema; maps of any names count as one."""
    for name, field in schema.get("properties", {}).items():
        if "properties" in field:
            yield from leaves(field, (*path, name))
        else:
            yield (*path, name), field


LEAVES = {".".join(path): (path, field) for path, field in leaves(SCHEMA) if path != ("global",)}


def other(path: tuple[str, ...], field: dict[str, Any]) -> Any:
    """Return a value that is not the default one."""
    default: Any = WHOLE
    for name in path:
        default = default.get(name, {}) if isinstance(default, dict) else {}
    examples: dict[str, Any] = {
        "settings": {"LLM_MODELS": "openai/gpt-5"},
        "platforms": {"discord": {"replicas": 3}},
        "ingress.annotations": {"nginx.ingress.kubernetes.io/proxy-buffering": "off"},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "chat", "operator": "Exists"}],
        "image.pullSecrets": [{"name": "registry"}],
        "image.pullPolicy": "Always",
        "serviceMonitor.interval": "7s",
    }
    if (name := ".".join(path)) in examples:
        return examples[name]
    if "pattern" in field:
        return "7Gi"
    match field["type"]:
        case "boolean":
            return not (default if isinstance(default, bool) else value_of(VALUES, path))
        case "integer":
            return 77
        case "object":
            return {"requests": {"cpu": "77m"}}
    return "seventy-seven"


def names_of(values: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the names of values as `LEAVES` has them, and of those that it does not have."""
    for name, value in values.items():
        inner = (*path, name)
        if ".".join(inner) not in LEAVES and isinstance(value, dict):
            yield from names_of(value, inner)
        else:
            yield ".".join(inner)


def value_of(values: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = values
    for name in path:
        value = value[name]
    return value


def with_value(values: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    change = copy.deepcopy(values)
    inner = change
    for name in path[:-1]:
        inner = inner.setdefault(name, {})
    inner[path[-1]] = value
    return change


@pytest.mark.parametrize("values", [SINGLE, SPLIT, CLUSTER, OPEN, SCALED, WHOLE], ids="-".join)
def test_helm_finds_no_fault_and_kubernetes_would_take_every_object(values: dict[str, Any]) -> None:
    linted = run_helm("lint", "--strict", values=values)
    assert linted.returncode == 0, linted.stdout

    for document in render(values):
        if document["kind"] not in OF_OPERATORS:
            for version in ("1.27", "1.37"):
                kubernetes_validate.validate(document, version, strict=True)


def test_every_value_is_explained_in_a_sentence_and_has_a_default() -> None:
    assert all(field["description"].endswith(".") for _, field in LEAVES.values())
    assert set(names_of(VALUES)) == set(LEAVES)


@pytest.mark.parametrize("name", LEAVES)
def test_every_value_has_an_effect(name: str) -> None:
    path, field = LEAVES[name]
    values = BESIDE.get(name, WHOLE)

    assert render(with_value(values, path, other(path, field))) != render(values)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "secretName: name the Secret"),
        (SINGLE | {"platforms": {"discord": {"replicas": 1}}}, "platforms: without s3.endpoint"),
        (SINGLE | {"database": {"pooler": {"enabled": True}}}, "database.pooler: it stands before database.cluster"),
        (SINGLE | {"ingress": {"enabled": True}}, "ingress.host: name the host"),
        (SPLIT | {"worker": {"autoscaling": {"enabled": True}}}, "worker.autoscaling.secretName: name the Secret"),
        (SINGLE | {"workers": 3}, "Additional property workers is not allowed"),
        (SINGLE | {"worker": {"replicas": 0}}, "worker.replicas"),
        (SINGLE | {"settings": {"lower": 1}}, "settings"),
    ],
)
def test_values_that_make_no_sense_are_refused_with_the_remedy(values: dict[str, Any], sentence: str) -> None:
    refusal = run_helm("template", "chat", values=values)

    assert refusal.returncode != 0
    assert sentence in refusal.stderr


@pytest.mark.parametrize("values", [SINGLE, WHOLE], ids=["single", "whole"])
def test_no_pod_has_a_right_that_it_does_not_need(values: dict[str, Any]) -> None:
    for name, pod in pods_of(render(values)).items():
        (container,) = pod["containers"]
        assert pod["automountServiceAccountToken"] is (name == "chat-parley-operator")
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]
        # A worker that is told to stop has ended by itself after 27 seconds.
        assert pod["terminationGracePeriodSeconds"] > 30


def test_programs_run_in_pods_of_their_own_and_keep_nothing_when_files_are_in_s3() -> None:
    pods = pods_of(render(SPLIT))

    assert {name: pod["containers"][0]["args"] for name, pod in pods.items()} == {
        "chat-parley-web": ["adapter", "web"],
        "chat-parley-worker": ["worker"],
        "chat-parley-discord": ["adapter", "discord"],
        "chat-parley-migrate": ["migrate"],
    }
    assert not [document for document in render(SPLIT) if document["kind"] == "PersistentVolumeClaim"]
    assert all("emptyDir" in volume for pod in pods.values() for volume in pod["volumes"])
    assert "discord" in list_folders()


def test_the_operator_may_read_its_resources_write_their_status_and_nothing_else() -> None:
    objects = render(SINGLE | {"operator": {"enabled": True}})
    pod = pods_of(objects)["chat-parley-operator"]
    (role,) = [document for document in objects if document["kind"] == "Role"]
    (binding,) = [document for document in objects if document["kind"] == "RoleBinding"]

    assert pod["containers"][0]["args"] == ["operator", "--namespace", "default", "--interval", "30"]
    # The volume belongs to the pod that keeps files.
    assert all("emptyDir" in volume for volume in pod["volumes"])
    assert binding["subjects"][0]["name"] == pod["serviceAccountName"] == "chat-parley-operator"
    assert {(group, resource, *rule["verbs"]) for rule in role["rules"] for group in rule["apiGroups"]
            for resource in rule["resources"]} == {
        *((GROUP, spec.plural, "get", "list", "watch", "patch") for spec in SPECS.values()),
        *((GROUP, f"{spec.plural}/status", "get", "patch") for spec in SPECS.values()),
        ("", "events", "create"),
    }  # fmt: skip
    assert not [document for document in render(WHOLE) if document["kind"].startswith("ClusterRole")]


def test_one_pod_does_everything_and_keeps_its_files_without_s3() -> None:
    pods = pods_of(render(SINGLE))

    assert pods["chat-parley-web"]["containers"][0]["args"] == ["run"]
    assert pods["chat-parley-web"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "chat-parley"}
    (claim,) = [document for document in render(SINGLE) if document["kind"] == "PersistentVolumeClaim"]
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_no_secret_stands_in_an_object_and_every_setting_is_one() -> None:
    known = SETTING_NAMES | set(list_setting_names())
    for document in render(WHOLE):
        assert document["kind"] != "Secret"
        if document["kind"] == "ConfigMap":
            assert set(document["data"]) <= known
    for name, pod in pods_of(render(WHOLE)).items():
        (container,) = pod["containers"]
        variables = {entry["name"]: entry for entry in container["env"]}
        assert "DATABASE_URL" in variables
        # What the pooler drops, migrations need.
        assert ("value" in variables["DATABASE_URL"]) == (name != "chat-parley-migrate-1")
        # Beside the pooler, the cluster itself.
        assert ("DATABASE_DIRECT_URL" in variables) == (name != "chat-parley-migrate-1")
        assert all("valueFrom" in entry for key, entry in variables.items() if key != "DATABASE_URL")


def test_migrations_come_before_the_programs_and_need_nothing_of_the_release() -> None:
    (job,) = [document for document in render(SPLIT) if document["kind"] == "Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]

    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert "envFrom" not in container
    assert "serviceAccountName" not in job["spec"]["template"]["spec"]
    # Beside a cluster of its own there is no database before the release.
    (job,) = [document for document in render(CLUSTER) if document["kind"] == "Job"]
    assert "annotations" not in job["metadata"]


def test_only_the_page_is_reached_and_nobody_reaches_the_credentials_of_a_node() -> None:
    (policy,) = [document for document in render(WHOLE) if document["kind"] == "NetworkPolicy"]
    (service,) = [document for document in render(WHOLE) if document["kind"] == "Service"]

    assert policy["spec"]["ingress"] == [{"ports": [{"protocol": "TCP", "port": "http"}]}]
    assert len(policy["spec"]["egress"]) == 2
    assert service["spec"]["selector"]["app.kubernetes.io/component"] == "web"
    assert [name for name, pod in pods_of(render(WHOLE)).items() if "ports" in pod["containers"][0]] == [
        "chat-parley-web"
    ]


def test_the_pooler_shares_sessions_and_the_cluster_has_the_extension_and_the_right_to_make_roles() -> None:
    objects = {document["kind"]: document for document in render(WHOLE)}

    assert objects["Pooler"]["spec"]["pgbouncer"]["poolMode"] == "transaction"
    assert objects["Cluster"]["spec"]["bootstrap"]["initdb"]["postInitApplicationSQL"] == ["CREATE EXTENSION vector"]
    assert objects["Cluster"]["spec"]["managed"]["roles"][0]["createrole"] is True
