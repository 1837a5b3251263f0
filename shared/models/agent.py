"""Agents to which a turn can delegate a task: a persona of this installation, or a remote agent over A2A."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, DateTime, ForeignKey, Index, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Agent(Row, Base):
    """An agent: its purpose, who may use it, and the persona or URL behind it."""

    __tablename__ = "agents"
    __table_args__ = (
        UniqueConstraint("name"),
        CheckConstraint(
            "name ~ '^[a-z][a-z0-9]*([_-][a-z0-9]+)*$'", name="name_is_lower_case_words_joined_by_hyphen_or_underscore"
        ),
        CheckConstraint("char_length(name) <= 40", name="name_has_at_most_40_characters"),
        CheckConstraint("btrim(description) <> ''", name="description_is_not_empty"),
        CheckConstraint("char_length(description) <= 500", name="description_has_at_most_500_characters"),
        CheckConstraint("num_nonnulls(persona_id, url) = 1", name="either_a_persona_or_a_url"),
        CheckConstraint("url ~ '^https?://[^/@\\s]+(/\\S*)?$'", name="url_begins_with_http_and_holds_no_password"),
        CheckConstraint(
            "jsonb_typeof(headers) = 'object' AND NOT jsonb_path_exists(headers, '$.* ? (@.type() != \"string\")')",
            name="headers_is_an_object_of_strings",
        ),
        CheckConstraint("headers = '{}' OR url IS NOT NULL", name="headers_need_a_url"),
        CheckConstraint(
            "required_permission IN ('guest', 'user', 'admin', 'owner')",
            name="required_permission_is_guest_user_admin_or_owner",
        ),
        CheckConstraint("card IS NULL OR jsonb_typeof(card) = 'object'", name="card_is_an_object"),
        CheckConstraint("card IS NULL OR url IS NOT NULL", name="card_needs_a_url"),
        Index(None, "persona_id"),
        {"comment": "Agents that the model may hand a task to. Changes count from the next message."},
    )

    name: Mapped[str] = mapped_column(Text, comment="What the model calls it, unique: lower case, e.g. researcher.")
    description: Mapped[str] = mapped_column(Text, comment="What it is good for: the model chooses by this.")
    persona_id: Mapped[int | None] = mapped_column(
        ForeignKey("personas.id", ondelete="CASCADE"),
        comment="The persona that answers: prompt, model, modules and limits. NULL: an agent at a url.",
    )
    url: Mapped[str | None] = mapped_column(
        Text, comment="An A2A agent's address, its base or its card's; NULL: a persona."
    )
    headers: Mapped[dict[str, Any]] = mapped_column(
        JSONB,
        server_default=text("'{}'"),
        comment='With a url: headers, e.g. {"Authorization": "Bearer ${A2A_NAME}"} with that variable of Parley\'s.',
    )
    required_permission: Mapped[str] = mapped_column(
        Text, server_default="guest", comment="Who may ask it: guest, user, admin or owner."
    )
    is_enabled: Mapped[bool] = mapped_column(server_default=text("true"), comment="Off: nobody may ask it.")
    card: Mapped[dict[str, Any] | None] = mapped_column(
        JSONB(none_as_null=True), comment="With a url: what the agent says of itself, as it was last fetched."
    )
    card_fetched_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="When the card was last fetched."
    )
    last_error: Mapped[str | None] = mapped_column(Text, comment="Why it could not be reached; NULL: nothing is wrong.")
