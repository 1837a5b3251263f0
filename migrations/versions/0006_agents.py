"""Agents that a turn may hand a task to, and the turns that they make of it.

A task makes a turn of its own below the one that asked: same user, same conversation, so that the ledger tells what a
conversation cost. Its steps belong to no conversation, so that no history shows them. Code that knows no agents writes
none of the new columns.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ONE_RUNNING = "uq_turns_one_running"
ONE_PER_CALL = "uq_turns_one_per_call"
RUNNING_BELOW = "ix_turns_running_below"
BEFORE = "One per answered message, or per run of messages that one person wrote in a row."
AFTER = f"{BEFORE[:-1]}; and one per task that a turn hands to an agent."
WHERE = "Where."
WHERE_OR_NOWHERE = "Where; NULL: a step of an agent that was asked, which is part of no conversation."


def upgrade() -> None:
    """Make the table, and let turns have turns below them."""
    _create_agents()
    op.add_column(
        "turns",
        sa.Column(
            "parent_turn_id",
            sa.BigInteger(),
            nullable=True,
            comment="The turn that handed this task over; NULL: a message's.",
        ),
    )
    op.add_column(
        "turns", sa.Column("parent_call_id", sa.Text(), nullable=True, comment="The tool call in it that asked.")
    )
    op.add_column(
        "turns", sa.Column("agent", sa.Text(), nullable=True, comment="The name of the agent that was asked.")
    )
    op.create_foreign_key(
        op.f("fk_turns_parent_turn_id"), "turns", "turns", ["parent_turn_id"], ["id"], ondelete="CASCADE"
    )
    op.create_check_constraint(
        op.f("turns_delegated_by_a_call_to_an_agent"),
        "turns",
        "num_nonnulls(parent_turn_id, parent_call_id, agent) IN (0, 3)",
    )
    op.create_index(
        ONE_PER_CALL,
        "turns",
        ["parent_turn_id", "parent_call_id"],
        unique=True,
        postgresql_where=sa.text("parent_turn_id IS NOT NULL"),
    )
    op.create_index(
        RUNNING_BELOW,
        "turns",
        ["parent_turn_id"],
        unique=False,
        postgresql_where=sa.text("status = 'running' AND parent_turn_id IS NOT NULL"),
    )
    _replace_one_running("status = 'running' AND parent_turn_id IS NULL")
    op.create_table_comment("turns", AFTER, existing_comment=BEFORE)
    op.alter_column("messages", "conversation_id", nullable=True, comment=WHERE_OR_NOWHERE, existing_comment=WHERE)


def downgrade() -> None:
    """Drop the turns of agents and all that made them possible."""
    op.execute("DELETE FROM turns WHERE parent_turn_id IS NOT NULL")
    op.alter_column("messages", "conversation_id", nullable=False, comment=WHERE, existing_comment=WHERE_OR_NOWHERE)
    op.create_table_comment("turns", BEFORE, existing_comment=AFTER)
    _replace_one_running("status = 'running'")
    op.drop_index(RUNNING_BELOW, table_name="turns")
    op.drop_index(ONE_PER_CALL, table_name="turns", postgresql_where=sa.text("parent_turn_id IS NOT NULL"))
    op.drop_constraint(op.f("turns_delegated_by_a_call_to_an_agent"), "turns")
    op.drop_constraint(op.f("fk_turns_parent_turn_id"), "turns")
    for column in ("agent", "parent_call_id", "parent_turn_id"):
        op.drop_column("turns", column)
    op.drop_table("agents")


def _replace_one_running(predicate: str) -> None:
    op.drop_index(ONE_RUNNING, table_name="turns")
    op.create_index(ONE_RUNNING, "turns", ["conversation_id"], unique=True, postgresql_where=sa.text(predicate))


def _create_agents() -> None:
    op.create_table(
        "agents",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column(
            "name",
            sa.Text(),
            nullable=False,
            comment="What the model calls it, unique: lower case, e.g. researcher.",
        ),
        sa.Column("description", sa.Text(), nullable=False, comment="What it is good for: the model chooses by this."),
        sa.Column(
            "persona_id",
            sa.BigInteger(),
            nullable=True,
            comment="The persona that answers: prompt, model, modules and limits. NULL: an agent at a url.",
        ),
        sa.Column(
            "url",
            sa.Text(),
            nullable=True,
            comment="An A2A agent's address, its base or its card's; NULL: a persona.",
        ),
        sa.Column(
            "headers",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment='With a url: headers, e.g. {"Authorization": "Bearer ${A2A_NAME}"} with that variable of Parley\'s.',
        ),
        sa.Column(
            "required_permission",
            sa.Text(),
            server_default="guest",
            nullable=False,
            comment="Who may ask it: guest, user, admin or owner.",
        ),
        sa.Column(
            "is_enabled",
            sa.Boolean(),
            server_default=sa.text("true"),
            nullable=False,
            comment="Off: nobody may ask it.",
        ),
        sa.Column(
            "card",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment="With a url: what the agent says of itself, as it was last fetched.",
        ),
        sa.Column(
            "card_fetched_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When the card was last fetched.",
        ),
        sa.Column(
            "last_error",
            sa.Text(),
            nullable=True,
            comment="Why it could not be reached; NULL: nothing is wrong.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        *_rules(),
        comment="Agents that the model may hand a task to. Changes count from the next message.",
    )
    op.create_index(op.f("ix_agents_persona_id"), "agents", ["persona_id"], unique=False)


def _rules() -> list[sa.Constraint]:
    return [
        sa.CheckConstraint(
            "name ~ '^[a-z][a-z0-9]*([_-][a-z0-9]+)*$'",
            name=op.f("agents_name_is_lower_case_words_joined_by_hyphen_or_underscore"),
        ),
        sa.CheckConstraint("char_length(name) <= 40", name=op.f("agents_name_has_at_most_40_characters")),
        sa.CheckConstraint("btrim(description) <> ''", name=op.f("agents_description_is_not_empty")),
        sa.CheckConstraint(
            "char_length(description) <= 500", name=op.f("agents_description_has_at_most_500_characters")
        ),
        sa.CheckConstraint("num_nonnulls(persona_id, url) = 1", name=op.f("agents_either_a_persona_or_a_url")),
        sa.CheckConstraint(
            "url ~ '^https?://[^/@\\s]+(/\\S*)?$'", name=op.f("agents_url_begins_with_http_and_holds_no_password")
        ),
        sa.CheckConstraint(
            "jsonb_typeof(headers) = 'object' AND NOT jsonb_path_exists(headers, '$.* ? (@.type() != \"string\")')",
            name=op.f("agents_headers_is_an_object_of_strings"),
        ),
        sa.CheckConstraint("headers = '{}' OR url IS NOT NULL", name=op.f("agents_headers_need_a_url")),
        sa.CheckConstraint(
            "required_permission IN ('guest', 'user', 'admin', 'owner')",
            name=op.f("agents_required_permission_is_guest_user_admin_or_owner"),
        ),
        sa.CheckConstraint("card IS NULL OR jsonb_typeof(card) = 'object'", name=op.f("agents_card_is_an_object")),
        sa.CheckConstraint("card IS NULL OR url IS NOT NULL", name=op.f("agents_card_needs_a_url")),
        sa.ForeignKeyConstraint(["persona_id"], ["personas.id"], name=op.f("fk_agents_persona_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agents")),
        sa.UniqueConstraint("name", name=op.f("uq_agents_name")),
    ]
