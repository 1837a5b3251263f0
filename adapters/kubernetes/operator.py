"""The operator: a thin shell of kopf, which tells what happens to resources and writes what became of them."""

import logging
from collections.abc import Mapping
from typing import Any

import kopf

from adapters.kubernetes.manifests import GROUP, SPECS, VERSION
from adapters.kubernetes.resources import Resources, State
from shared.clock import Clock
from shared.db.database import Database
from shared.errors import ConfigurationError, Refusal
from shared.log import get_logger

log = get_logger()
FINALIZER, MARKS = f"{GROUP}/row", f"kopf.{GROUP}"
# On a resource: `keep` leaves its row when it is deleted.
POLICY, KEEP = f"{GROUP}/resource-policy", "keep"
# What is wrong with the database or the API server passes.
RETRY_SECONDS = 5.0


async def run_operator(database: Database, clock: Clock, *, namespace: str, seconds: float) -> None:
    """Watch the resources of a namespace until the process is told to stop; look for drift every so many seconds.

    Raises `ConfigurationError` where there is no cluster.
    """
    settings = build_settings()
    try:
        connection = login(settings=settings)
    except (OSError, kopf.LoginError) as error:
        raise ConfigurationError(f"KUBECONFIG: {error}") from None
    if connection is None:
        raise ConfigurationError("There is no cluster: set KUBECONFIG, or run the operator in a pod with an account.")
    # kopf tells of each look for drift; what became of a resource is told here, once.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    registry = build_registry(Resources(database, f"kubernetes:{namespace}"), clock, seconds)
    await kopf.operator(registry=registry, settings=settings, namespaces=[namespace], standalone=True)


def build_settings() -> kopf.OperatorSettings:
    """Return the settings: what kopf remembers is in annotations of ours, and rights in one namespace are enough."""
    settings = kopf.OperatorSettings()
    settings.persistence.finalizer = FINALIZER
    # Of a prefix that is kopf's alone: it takes no notice of other annotations with it.
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=MARKS)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=MARKS, key="last-applied")
    settings.scanning.disabled = True
    settings.execution.default_backoff = RETRY_SECONDS
    return settings


def build_registry(resources: Resources, clock: Clock, seconds: float) -> kopf.OperatorRegistry:
    """Return what kopf calls for resources of each kind."""
    registry = kopf.OperatorRegistry()

    async def apply(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        state = await resources.apply(to_document(body), row=find_row(body))
        write_status(body, patch, state=state, clock=clock)

    async def inspect(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        if FINALIZER not in body.metadata.get("finalizers", ()):
            # Without it the row would outlive a resource that is deleted now.
            return
        document, row, before = to_document(body), find_row(body), body.status.get("state")
        if before in {"applied", "drifted"}:
            drifted_version = body.status.get("version") if before == "drifted" else None
            state = await resources.inspect(document, row=row, drifted_version=drifted_version)
        else:
            # What was refused is tried again: what it refers to may be there by now.
            state = await resources.apply(document, row=row)
        write_status(body, patch, state=state, clock=clock)

    async def remove(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        if body.metadata.annotations.get(POLICY) == KEEP:
            return
        row = find_row(body) or await resources.find_row(to_document(body))
        if row is None:
            return
        try:
            await resources.remove(body["kind"], row)
        except Refusal as error:
            # The finalizer stays, so that nothing is left behind unnoticed.
            write_status(body, patch, state=State("refused", str(error), row=row), clock=clock)
            raise kopf.TemporaryError(str(error), delay=seconds) from None

    kopf.on.login(registry=registry)(login)
    for spec in SPECS.values():
        place = (GROUP, VERSION, spec.plural)
        kopf.on.create(*place, registry=registry, id="apply")(apply)
        kopf.on.update(*place, registry=registry, id="apply")(apply)
        kopf.on.resume(*place, registry=registry, id="inspect")(inspect)
        kopf.on.delete(*place, registry=registry, id="remove")(remove)
        kopf.timer(*place, registry=registry, id="drift", interval=seconds, initial_delay=seconds)(inspect)
    return registry


def login(**arguments: Any) -> kopf.ConnectionInfo | None:
    """Return the rights of the pod's service account, elsewhere those of KUBECONFIG."""
    return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)


def to_document(body: kopf.Body) -> dict[str, Any]:
    """Return what a resource says, as it would stand in a file."""
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "metadata": {"name": body.metadata.name},
        "spec": dict(body.spec),
    }


def find_row(body: kopf.Body) -> str | None:
    """Return which row a resource has, as its status says."""
    row = body.status.get("row")
    return None if row is None else str(row)


def write_status(body: kopf.Body, patch: kopf.Patch, *, state: State, clock: Clock) -> None:
    """Write what became of the resource, with an event when it is something else than before."""
    old: Mapping[str, Any] = dict(body.status)
    generation = body.metadata.get("generation")
    new = {**state.to_status(), "observedGeneration": generation}
    if all(old.get(field) == value for field, value in new.items() if value or old.get(field)):
        return
    is_ready = state.state == "applied"
    before: Mapping[str, Any] = (old.get("conditions") or [{}])[0]
    status = str(is_ready)
    since = before.get("lastTransitionTime") if before.get("status") == status else None
    condition = {
        "type": "Ready",
        "status": status,
        "reason": state.state.capitalize(),
        "message": state.message or "",
        "lastTransitionTime": since or clock.now().isoformat(timespec="seconds"),
    }
    log.info("resource_changed", state=state.state, kind=body["kind"], name=body.metadata.name, version=state.version)
    patch.status.update({**new, "conditions": [condition]})
    if not is_ready and (old.get("state"), old.get("message")) != (state.state, state.message):
        message = "; ".join(filter(None, (state.message, *state.drift)))
        kopf.warn(body, reason=state.state.capitalize(), message=message[:1000])
