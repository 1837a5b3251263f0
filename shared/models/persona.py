"""Personas: instructions, model and allowed modules for a place."""

from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Float, Index, Integer, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Persona(Row, Base):
    """The instructions, model and modules of the agent in a place."""

    __tablename__ = "personas"
    __table_args__ = (
        UniqueConstraint("name"),
        CheckConstraint("btrim(name) <> ''", name="name_is_not_empty"),
        CheckConstraint(
            "allowed_modules IS NULL OR (jsonb_typeof(allowed_modules) = 'array'"
            " AND NOT jsonb_path_exists(allowed_modules, '$[*] ? (@.type() != \"string\")'))",
            name="allowed_modules_is_an_array_of_module_names",
        ),
        CheckConstraint(
            "CASE WHEN jsonb_typeof(skills) = 'array' THEN jsonb_array_length(skills) <= 50"
            " AND NOT jsonb_path_exists(skills, '$[*] ? (@.type() != \"string\")') ELSE skills IS NULL END",
            name="skills_is_an_array_of_at_most_50_names",
        ),
        CheckConstraint("max_tokens_per_request > 0", name="max_tokens_per_request_is_positive"),
        CheckConstraint("max_temperature BETWEEN 0 AND 2", name="max_temperature_is_0_to_2"),
        CheckConstraint("max_iterations BETWEEN 1 AND 100", name="max_iterations_is_1_to_100"),
        CheckConstraint("loop_mode IN ('native', 'planner')", name="loop_mode_is_native_or_planner"),
        CheckConstraint("platform_server_id IS NULL OR platform IS NOT NULL", name="server_needs_a_platform"),
        CheckConstraint("platform_channel_id IS NULL OR platform IS NOT NULL", name="channel_needs_a_platform"),
        Index("uq_personas_one_default", "is_default", unique=True, postgresql_where=text("is_default")),
        Index(
            "uq_personas_one_per_place",
            "platform",
            "platform_server_id",
            "platform_channel_id",
            unique=True,
            postgresql_nulls_not_distinct=True,
            postgresql_where=text("platform IS NOT NULL"),
        ),
        {
            "comment": "Who the agent is in a place."
            " The closest wins: channel, server, platform, the default, the built-in one."
        },
    )

    name: Mapped[str] = mapped_column(Text, comment="A name for people, unique.")
    system_prompt: Mapped[str] = mapped_column(Text, comment="The instructions that the model is given.")
    platform: Mapped[str | None] = mapped_column(Text, comment="Only on this platform (discord, slack, web, …).")
    platform_server_id: Mapped[str | None] = mapped_column(Text, comment="Only on this server or workspace.")
    platform_channel_id: Mapped[str | None] = mapped_column(Text, comment="Only in this channel.")
    allowed_modules: Mapped[list[Any] | None] = mapped_column(
        JSONB(none_as_null=True),
        comment='Modules allowed here, e.g. ["knowledge"]; NULL: all that the permission allows.',
    )
    skills: Mapped[list[Any] | None] = mapped_column(
        JSONB(none_as_null=True), comment='Skills that the model may load here, e.g. ["meeting-notes"]; NULL: none.'
    )
    default_model: Mapped[str | None] = mapped_column(
        Text, comment="litellm name of the model to try first; NULL: LLM_MODELS."
    )
    max_tokens_per_request: Mapped[int | None] = mapped_column(Integer, comment="Most output tokens of one model call.")
    max_temperature: Mapped[float | None] = mapped_column(
        Float,
        comment="Highest temperature that a program may ask for here, 0 to 2; a higher one is refused; NULL: 2.",
    )
    max_iterations: Mapped[int | None] = mapped_column(
        Integer, comment="Most waves of tool calls; NULL: MAX_AGENT_ITERATIONS."
    )
    loop_mode: Mapped[str | None] = mapped_column(
        Text, comment="native: the model calls tools; planner: it writes a plan; NULL: as PLANNER_PERCENT says."
    )
    allow_mentions: Mapped[bool] = mapped_column(server_default=text("false"), comment="May replies mention people?")
    is_default: Mapped[bool] = mapped_column(
        server_default=text("false"), comment="Used where no closer persona is; at most one."
    )


class PersonaVersion(Row, Base):
    """What a persona was after one change; triggers write it, nobody changes it."""

    __tablename__ = "persona_versions"
    __table_args__ = (
        UniqueConstraint("persona_id", "version"),
        CheckConstraint("action IN ('insert', 'update', 'delete')", name="action_is_insert_update_or_delete"),
        Index(None, "name"),
        {"comment": "What each persona was after each change. Append-only; a trigger writes it."},
    )

    # Without a foreign key: the versions of a deleted persona are kept.
    persona_id: Mapped[int] = mapped_column(BigInteger, comment="The persona; it may be deleted.")
    version: Mapped[int] = mapped_column(Integer, comment="Counts from 1 for each persona.")
    name: Mapped[str] = mapped_column(Text, comment="Its name in this version.")
    action: Mapped[str] = mapped_column(Text, comment="insert, update or delete.")
    fields: Mapped[dict[str, Any]] = mapped_column(
        JSONB, comment="The columns of the persona after the change; of a deleted one as they were."
    )
    database_user: Mapped[str] = mapped_column(Text, comment="The role that was connected to the database.")
    actor: Mapped[str | None] = mapped_column(
        Text, comment="Who, as the program says: cli, an account such as discord:80351110224678912; NULL: psql."
    )
