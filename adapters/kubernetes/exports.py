"""The rows that are there as YAML, and YAML as manifests."""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from adapters.kubernetes.manifests import SECRET_MARK, Manifest, read_manifest
from adapters.kubernetes.rows import StoredRow
from shared.errors import Refusal

SUFFIXES = (".yaml", ".yml")
MOST_NAME_CHARS = 60


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, as people do."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


class _Loader(yaml.SafeLoader):
    """Reads what a reviewer sees: no key twice, of which the last would count, and no alias.

    A few lines of aliases of aliases would be more than the memory holds.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:  # the signature is the library's
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]  # as its stubs have it
            raise yaml.MarkedYAMLError(
                problem="an alias (*) stands in the place of a value", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # as above
        keys: set[str] = set()
        for key, _ in node.value:
            if key.value in keys:
                raise yaml.MarkedYAMLError(problem=f"{key.value!a} is there twice", problem_mark=key.start_mark)
            if isinstance(key.value, str):
                keys.add(key.value)
        return super().construct_mapping(node, deep=deep)


# Beside its own, PyYAML raises what Python does where a value is not what its tag says, or is too deep.
UNREADABLE = (OSError, ValueError, OverflowError, LookupError, AttributeError, RecursionError, yaml.YAMLError)


def to_manifests(kind: str, rows: Mapping[str, StoredRow]) -> list[Manifest]:
    """Return the rows as manifests, without secrets; each name is made of the row's, and unique."""
    manifests: list[Manifest] = []
    names: set[str] = set()
    for key, row in rows.items():
        if row.is_hidden:
            continue
        # Kubernetes allows lower case letters, digits and hyphens.
        words = re.sub(r"[^a-z0-9]+", "-", (getattr(row.spec, "name", None) or key).lower()).strip("-")
        name = stem = words[:MOST_NAME_CHARS].strip("-") or "row"
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
        # Hidden are what Git and CI have there, and the folders that the links of a mounted ConfigMap lead to.
        names = (
            file for file in path.rglob("*") if not any(part.startswith(".") for part in file.relative_to(path).parts)
        )
        files = sorted(file for file in names if file.suffix in SUFFIXES and file.is_file())
    else:
        files = [path]
    manifests: list[Manifest] = []
    faults: list[str] = []
    for file in files:
        if file != path and not file.resolve().is_relative_to(path.resolve()):
            faults.append(f"{file}: it is a link to a file outside {path}")
            continue
        try:
            content = file.read_text("utf-8") if text is None else text
            documents = [document for document in yaml.load_all(content, _Loader) if document is not None]  # a safe one
        except UNREADABLE as error:
            faults.append(_to_fault(file, error))
            continue
        for document in _flatten(documents):
            try:
                manifests.append(read_manifest(document, str(file)))
            except Refusal as error:
                faults.append(str(error))
    return manifests, faults


def _to_fault(file: Path, error: Exception) -> str:
    # Without the line itself, as PyYAML shows it: the file may be another than its author meant, or hold a secret.
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{file}: line {error.problem_mark.line + 1}: {error.problem}"
    if isinstance(error, RecursionError):
        return f"{file}: it is nested too deeply"
    return (
        f"{file}: {error}"
        if isinstance(error, OSError | UnicodeDecodeError | yaml.YAMLError)
        else f"{file}: a value is not what its tag says"
    )


def _flatten(documents: Sequence[Any]) -> Iterator[Any]:
    # What `kubectl get -o yaml` prints is one list.
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == "List" and isinstance(document.get("items"), list):
            yield from document["items"]
        else:
            yield document
