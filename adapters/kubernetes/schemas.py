"""The CustomResourceDefinitions, made of the models in `manifests.py`."""

from collections.abc import Mapping
from typing import Any

import yaml

from adapters.kubernetes.manifests import GROUP, SPECS, VERSION, Spec

# What JSON Schema says and a structural schema of Kubernetes does not.
LEFT_OUT = frozenset({"title", "additionalProperties", "$defs", "default"})
# Shown by `kubectl get`.
COLUMNS = (
    ("State", "string", ".status.state"),
    ("Version", "integer", ".status.version"),
    ("Age", "date", ".metadata.creationTimestamp"),
)
TEXT, NUMBER = {"type": "string"}, {"type": "integer", "format": "int64"}
CONDITION = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {
        "type": TEXT,
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": TEXT,
        "message": TEXT,
        "observedGeneration": NUMBER,
        "lastTransitionTime": {"type": "string", "format": "date-time"},
    },
}
STATUS = {
    "type": "object",
    "description": "What became of the row.",
    "properties": {
        "state": {
            "type": "string",
            "enum": ["applied", "refused", "drifted"],
            "description": "applied: the row says what the resource says; refused; drifted: somebody changed the row.",
        },
        "message": {"type": "string", "description": "Why it was refused, or who changed the row."},
        "row": {"type": "string", "description": "What tells the row from others of its table."},
        "version": {**NUMBER, "description": "The row's last entry in the log of changes: parley audit undo VERSION."},
        "drift": {"type": "array", "items": TEXT, "description": "What differs, a line for each field."},
        "observedGeneration": {**NUMBER, "description": "The generation of the resource that this is about."},
        "conditions": {
            "type": "array",
            "items": CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
}


def build_definition(spec: type[Spec]) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind."""
    schema = spec.model_json_schema(by_alias=True)
    name = f"{spec.plural}.{GROUP}"
    properties = {
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": {"type": "object"},
        "spec": to_structural(schema, schema.get("$defs", {})),
        "status": STATUS,
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": name, "type": kind, "jsonPath": path} for name, kind, path in COLUMNS],
        "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": properties}},
    }
    names = {
        "kind": spec.kind_name,
        "plural": spec.plural,
        "singular": spec.kind_name.lower(),
        "categories": ["parley"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def write_definitions() -> dict[str, str]:
    """Return the definitions as YAML, by the names of their files."""
    return {
        f"{definition['spec']['names']['plural']}.yaml": yaml.dump(
            definition, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120
        )
        for definition in map(build_definition, SPECS.values())
    }


class _Dumper(yaml.SafeDumper):
    """Writes what is there twice twice, instead of a reference."""

    def ignore_aliases(self, data: Any) -> bool:  # the signature is the library's
        return True


def to_structural(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema as Kubernetes takes it: without references, and with `nullable` for None."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rsplit("/", 1)[-1]]
        return to_structural({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, definitions)
    if "anyOf" in schema:
        (inner,) = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return to_structural({**inner, **rest}, definitions) | {"nullable": True}
    structural = {key: value for key, value in schema.items() if key not in LEFT_OUT}
    if isinstance(schema.get("additionalProperties"), dict):
        structural["additionalProperties"] = to_structural(schema["additionalProperties"], definitions)
    if "items" in schema:
        structural["items"] = to_structural(schema["items"], definitions)
    if "properties" in schema:
        structural["properties"] = {
            name: to_structural(field, definitions) for name, field in schema["properties"].items()
        }
    return structural
