"""The form of what Slack sends, as far as the library and our listeners rely on it.

A signed request of another form is refused at the door, so that no listener has to expect one.
"""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, StringConstraints, model_validator

# Ids, times and names of Slack's own are visible ASCII; texts of people may contain anything.
Word = Annotated[str, StringConstraints(max_length=1000, pattern=r"^[!-~]*$")]
Text = InstanceOf[str]
# Slack writes some empty objects as lists.
Empty = Annotated[list[Any], Field(max_length=0)]


class Sent(BaseModel):
    """A request, or a part of one: the same names have the same form at every depth.

    A field may be missing or null; those that are not named here may have any form.
    """

    # The first request builds it, because every start imports it.
    model_config = ConfigDict(defer_build=True)

    type: Word | None = None
    subtype: Word | None = None
    id: Word | None = None
    ts: Word | None = None
    thread_ts: Word | None = None
    deleted_ts: Word | None = None
    tab: Word | None = None
    channel_type: Word | None = None

    team_id: Word | None = None
    user_id: Word | None = None
    channel_id: Word | None = None
    enterprise_id: Word | None = None
    bot_id: Word | None = None
    parent_user_id: Word | None = None
    user_team: Word | None = None
    source_team: Word | None = None
    app_installed_team_id: Word | None = None
    subteam_id: Word | None = None

    trigger_id: Word | None = None
    callback_id: Text | None = None
    response_url: Word | None = None
    private_metadata: Text | None = None

    # Events have ids where clicks and forms have objects.
    team: "Word | Sent | None" = None
    user: "Word | Sent | None" = None
    channel: "Word | Sent | None" = None
    enterprise: "Word | Sent | None" = None
    item: "Word | Sent | None" = None

    event: "Sent | None" = None
    message: "Sent | None" = None
    previous_message: "Sent | None" = None
    edited: "Sent | None" = None
    assistant_thread: "Sent | None" = None
    container: "Sent | None" = None
    subteam: "Sent | None" = None
    view: "Sent | None" = None
    state: "Sent | None" = None

    authorizations: "list[Sent] | None" = None
    actions: "list[Action] | None" = None
    attachments: list[dict[str, Any]] | None = None
    files: "list[File] | None" = None
    response_urls: "list[Sent]" = Field(default_factory=list)
    tokens: dict[str, list[Word] | None] | None = None
    removed_users: list[Word] | None = None
    # Of a form: by block and input.
    values: dict[str, dict[str, dict[str, Any]]] | Empty | None = None

    @model_validator(mode="after")
    def check_kind(self) -> Self:
        """Refuse an event without its event, a click without what was clicked, and a form without its view."""
        parts = {"event_callback": self.event, "block_actions": self.actions, "view_submission": self.view}
        if not parts.get(self.type or "", True):
            raise ValueError(f"{self.type} is not whole")
        return self


class Action(Sent):
    """A button or an input that somebody used."""

    action_id: Text
    block_id: Text | None = None


class File(Sent):
    """A file of a message."""

    url_private: Text | None = None
    url_private_download: Text | None = None
