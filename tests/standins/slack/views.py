"""`views.*`: the modals that people are shown, and their home tabs."""

import time
from uuid import uuid4

from tests.standins.slack.api import Call, method
from tests.standins.slack.rules import Refused, check_view
from tests.standins.slack.world import Json, new_id

TRIGGER_SECONDS = 3.0


@method("views.open", tier=4, needs={"view": dict}, takes={"trigger_id": str, "interactivity_pointer": str})
async def open_view(call: Call) -> Json:
    check_view(call.args["view"])
    if call.args["view"]["type"] != "modal":
        raise Refused("invalid_arguments", "must be a modal [json-pointer:/view/type]")
    trigger = call.standin.interactions.triggers.get(call.args.get("trigger_id", ""))
    if trigger is None:
        raise Refused("invalid_trigger_id")
    if time.monotonic() - trigger["at"] > TRIGGER_SECONDS:
        raise Refused("expired_trigger_id")
    if trigger["is_used"]:
        raise Refused("exchanged_trigger_id")
    trigger["is_used"] = True
    view = _keep(call, call.args["view"], trigger["user"])
    await call.standin.tell()
    return {"view": view}


@method("views.publish", tier=4, needs={"user_id": str, "view": dict}, takes={"hash": str})
async def publish_view(call: Call) -> Json:
    check_view(call.args["view"])
    if call.args["view"]["type"] != "home":
        raise Refused("invalid_arguments", "must be a home [json-pointer:/view/type]")
    user_id, world = call.args["user_id"], call.standin.world
    if user_id not in world.users:
        raise Refused("user_not_found")
    before = world.homes.get(user_id)
    if call.args.get("hash") and before is not None and before["hash"] != call.args["hash"]:
        raise Refused("hash_conflict")
    world.homes[user_id] = _keep(call, call.args["view"], user_id, before)
    await call.standin.tell()
    return {"view": world.homes[user_id]}


@method("views.update", tier=4, needs={"view": dict}, takes={"view_id": str, "external_id": str, "hash": str})
async def update_view(call: Call) -> Json:
    check_view(call.args["view"])
    before = next(
        (
            view
            for view in call.standin.world.views.values()
            if call.args.get("view_id") == view["id"]
            or (call.args.get("external_id") and call.args["external_id"] == view.get("external_id"))
        ),
        None,
    )
    if before is None:
        raise Refused("not_found")
    if call.args.get("hash") and before["hash"] != call.args["hash"]:
        raise Refused("hash_conflict")
    view = _keep(call, call.args["view"], before["for"], before)
    await call.standin.tell()
    return {"view": view}


def _keep(call: Call, fields: Json, user_id: str, before: Json | None = None) -> Json:
    """Store a view in place of the one before it."""
    view: Json = {
        "id": before["id"] if before else new_id("V"),
        "team_id": call.installation.team["id"],
        "app_id": call.standin.world.app_id,
        "bot_id": call.installation.bot_id,
        "hash": f"{time.time():.6f}.{uuid4().hex[:8]}",
        "private_metadata": "",
        "callback_id": "",
        "external_id": "",
        # As Slack writes it before anything is entered.
        "state": {"values": []},
        **fields,
        "for": user_id,
    }
    view["blocks"] = [{"block_id": f"b{number}", **block} for number, block in enumerate(view["blocks"])]
    view["root_view_id"] = view["id"]
    call.standin.world.views[view["id"]] = view
    return view
