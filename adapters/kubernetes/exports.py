"""The rows that are there as YAML, and YAML as manifests."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from adapters.kubernetes.manifests import SECRET_MARK, Manifest, read_manifest
from adapters.kubernetes.rows import StoredRow
from shared.errors import Refusal

SUFFIXES = (".yaml", ".yml")


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, as people do."""


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _write_text)


def to_manifests(kind: str, rows: Mapping[str, StoredRow]) -> list[Manifest]:
    """Return the rows as manifests, without secrets; each name is made of the row's, and unique."""
    manifests: list[Manifest] = []
    names: set[str] = set()
    for key, row in rows.items():
        if row.is_hidden:
            continue
        name = stem = _to_resource_name(getattr(row.spec, "name", None) or key)
        number = 1
        while name in names:
            number += 1
            name = f"{stem}-{number}"
        names.add(name)
        public = {field: value for field, value in row.secretless.items() if value is not None}
        spec = type(row.spec).model_validate(row.spec.model_dump() | public, strict=False)
        manifests.append(Manifest(kind, name, spec))
    return manifests


def list_secrets(manifest: Manifest) -> list[str]:
    """Return the fields in which an export has left out a secret."""
    return [field for field, value in manifest.spec.to_fields().items() if SECRET_MARK in str(value)]


def write_yaml(manifests: Sequence[Manifest]) -> str:
    """Return the manifests as documents of one YAML file; the same manifests give the same bytes."""
    documents = [
        yaml.dump(manifest.to_document(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
        for manifest in manifests
    ]
    return "---\n".join(documents)


def read_files(path: Path, text: str | None = None) -> tuple[list[Manifest], list[str]]:
    """Return the manifests of a file, or of all YAML files below a folder, and a sentence for each wrong document.

    `text` is read instead of the file, which then only names the source.
    """
    if text is not None:
        files = [path]
    elif path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    else:
        files = [path]
    manifests: list[Manifest] = []
    faults: list[str] = []
    for file in files:
        try:
            content = file.read_text("utf-8") if text is None else text
            documents = [document for document in yaml.safe_load_all(content) if document is not None]
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            faults.append(f"{file}: {' '.join(str(error).split())}")
            continue
        for document in _flatten(documents):
            try:
                manifests.append(read_manifest(document, str(file)))
            except Refusal as error:
                faults.append(str(error))
    return manifests, faults


def _flatten(documents: Sequence[Any]) -> Iterator[Any]:
    # What `kubectl get -o yaml` prints is one list.
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == "List":
            yield from document.get("items") or ()
        else:
            yield document


def _to_resource_name(name: str) -> str:
    """Return the name as Kubernetes allows it: lower case letters, digits and hyphens, at most 60."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return words[:60].strip("-") or "row"
