"""Scopes of memories as rows: who may see a memory is one row's business, and row-level security asks that row.

Rows that the release before, or an admin, inserts get their scope by a trigger, and a worker indexes them. That release
looks words up in `memory_postings`, which stays until the next one; `memory_words` takes its place. It holds the words of
each text alone: what the windows around a text share is found by the ordinals of the neighbours.
"""

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
# A function comes after those it calls.
FUNCTIONS = (
    "parley_memory_scope_v1",
    "parley_add_memories_v1",
    "parley_measure_windows_v1",
    "parley_index_memories_v1",
    "parley_unindexed_memories_v1",
    "parley_texts_of_memories_v1",
    "parley_forget_messages_v1",
)
KNOWN_SCOPE = "scope IN ('private', 'conversation', 'server', 'everywhere')"

# Index-only scans stay so only while vacuum keeps up with new rows.
EAGER = """
ALTER TABLE memory_words SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 500
)
"""

TRIGGERS = """
CREATE FUNCTION parley_place_memory() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    said_in conversations;
BEGIN
    IF NEW.scope = 'conversation' THEN
        SELECT * INTO said_in FROM conversations AS c WHERE c.id = NEW.conversation_id;
        IF said_in.id IS NULL THEN
            RAISE 'a memory with the scope conversation needs the conversation_id of its channel'
                USING ERRCODE = 'check_violation';
        END IF;
        NEW.platform := said_in.platform;
        NEW.platform_server_id := coalesce(said_in.platform_server_id, said_in.platform_channel_id);
    ELSIF NEW.scope = 'server' AND (NEW.platform IS NULL OR NEW.platform_server_id IS NULL) THEN
        RAISE 'new row violates "memories_server_scope_names_its_server": name platform and platform_server_id'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'memories_server_scope_names_its_server';
    ELSIF NEW.scope NOT IN ('private', 'server', 'everywhere') THEN
        -- The table's own constraint refuses it.
        NEW.scope_id := 0;
        RETURN NEW;
    END IF;
    NEW.scope_id := parley_memory_scope_v1(
        NEW.scope, NEW.user_id, NEW.platform, NEW.platform_server_id, said_in.platform_channel_id,
        said_in.platform_thread_id
    );
    RETURN NEW;
END
$$;
CREATE TRIGGER parley_place_memory BEFORE INSERT ON memories
    FOR EACH ROW WHEN (NEW.scope_id IS NULL) EXECUTE FUNCTION parley_place_memory();

CREATE FUNCTION parley_change_memory() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM memory_words WHERE memory_id = OLD.id;
    DELETE FROM memory_postings WHERE memory_id = OLD.id;
    DELETE FROM memory_vectors WHERE memory_id = OLD.id;
    IF OLD.is_indexed THEN
        UPDATE memory_scopes SET memories = memories - 1, words = words - OLD.turn_length WHERE id = OLD.scope_id;
    END IF;
    -- The windows of its neighbours hold the old text.
    DELETE FROM memory_vectors AS v USING memories AS m
    WHERE m.scope_id = OLD.scope_id AND m.ordinal IN (OLD.ordinal - 1, OLD.ordinal + 1) AND v.memory_id = m.id
          AND v.kind = 'window';
    UPDATE memories SET window_length = nullif(window_length - OLD.turn_length, turn_length), vector_model = NULL
    WHERE scope_id = OLD.scope_id AND ordinal IN (OLD.ordinal - 1, OLD.ordinal + 1) AND OLD.is_indexed;
    NEW.is_indexed := false;
    NEW.content_key := NULL;
    NEW.vector_model := NULL;
    IF NEW.scope <> OLD.scope OR NEW.user_id <> OLD.user_id
       OR (NEW.platform, NEW.platform_server_id) IS DISTINCT FROM (OLD.platform, OLD.platform_server_id) THEN
        NEW.ordinal := NULL;
        NEW.scope_id := NULL;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER parley_change_memory
    BEFORE UPDATE OF content, scope, user_id, platform, platform_server_id ON memories FOR EACH ROW
    WHEN ((OLD.content, OLD.scope, OLD.user_id, OLD.platform, OLD.platform_server_id)
          IS DISTINCT FROM (NEW.content, NEW.scope, NEW.user_id, NEW.platform, NEW.platform_server_id))
    EXECUTE FUNCTION parley_change_memory();
-- Triggers run in the order of their names.
CREATE TRIGGER parley_place_memory_again
    BEFORE UPDATE OF scope, user_id, platform, platform_server_id ON memories
    FOR EACH ROW WHEN (NEW.scope_id IS NULL) EXECUTE FUNCTION parley_place_memory();

CREATE FUNCTION parley_remove_from_index() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE memory_scopes AS s SET memories = s.memories - g.memories, words = s.words - g.words
    FROM (
        SELECT scope_id, count(*) AS memories, sum(turn_length) AS words FROM gone WHERE is_indexed GROUP BY scope_id
    ) AS g
    WHERE s.id = g.scope_id;
    PERFORM parley_measure_windows_v1(array_agg(scope_id), array_agg(ordinal)) FROM gone
    WHERE source = 'turn' AND ordinal IS NOT NULL;
    RETURN NULL;
END
$$;
CREATE TRIGGER parley_remove_from_index AFTER DELETE ON memories
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION parley_remove_from_index();

CREATE FUNCTION parley_mark_owners_of_memories() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE users SET has_memories = true WHERE id IN (SELECT user_id FROM made) AND NOT has_memories;
    RETURN NULL;
END
$$;
DROP TRIGGER parley_mark_owner_of_memory ON memories;
DROP FUNCTION parley_mark_owner_of_memory();
CREATE TRIGGER parley_mark_owners_of_memories AFTER INSERT ON memories
    REFERENCING NEW TABLE AS made FOR EACH STATEMENT EXECUTE FUNCTION parley_mark_owners_of_memories();

CREATE FUNCTION parley_place_vector() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    SELECT scope_id INTO NEW.scope_id FROM memories WHERE id = NEW.memory_id;
    RETURN NEW;
END
$$;
CREATE TRIGGER parley_place_vector BEFORE INSERT ON memory_vectors
    FOR EACH ROW WHEN (NEW.scope_id IS NULL) EXECUTE FUNCTION parley_place_vector();
"""

DROP_TRIGGERS = """
DROP TRIGGER parley_place_vector ON memory_vectors;
DROP FUNCTION parley_place_vector();
DROP TRIGGER parley_mark_owners_of_memories ON memories;
DROP FUNCTION parley_mark_owners_of_memories();
DROP TRIGGER parley_remove_from_index ON memories;
DROP FUNCTION parley_remove_from_index();
DROP TRIGGER parley_place_memory_again ON memories;
DROP TRIGGER parley_change_memory ON memories;
DROP FUNCTION parley_change_memory();
DROP TRIGGER parley_place_memory ON memories;
DROP FUNCTION parley_place_memory();
CREATE FUNCTION parley_mark_owner_of_memory() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE users SET has_memories = true WHERE id = NEW.user_id AND NOT has_memories;
    RETURN NULL;
END
$$;
CREATE TRIGGER parley_mark_owner_of_memory AFTER INSERT ON memories
    FOR EACH ROW EXECUTE FUNCTION parley_mark_owner_of_memory();
"""

CHECKS = {
    "scope_is_known": KNOWN_SCOPE,
    "server_scope_names_its_server": "scope IN ('private', 'everywhere') OR platform_server_id IS NOT NULL AND platform"
    " IS NOT NULL",
    "confidence_is_between_0_and_1": "confidence BETWEEN 0 AND 1",
    "superseded_by_another_memory": "superseded_by <> id",
    "an_indexed_memory_has_an_ordinal": "ordinal IS NOT NULL OR NOT is_indexed",
}
INDEXES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "uq_memories_ordinal": (["scope_id", "ordinal"], {"unique": True}),
    "ix_memories_newest_of_scope": (["scope_id", "said_at", "id"], {}),
    "ix_memories_newest_of_user": (["user_id", "said_at", "id"], {}),
    "ix_memories_facts": (["user_id", "said_at", "id"], {"postgresql_where": sa.text("source <> 'turn'")}),
    "ix_memories_turn": (["turn_id"], {"postgresql_where": sa.text("turn_id IS NOT NULL")}),
    "ix_memories_message": (
        ["platform_message_id", "platform"],
        {"postgresql_where": sa.text("platform_message_id IS NOT NULL")},
    ),
    "ix_memories_superseded_by": (["superseded_by"], {"postgresql_where": sa.text("superseded_by IS NOT NULL")}),
    "ix_memories_unindexed": (["id"], {"postgresql_where": sa.text("NOT is_indexed")}),
    "uq_memories_content": (
        ["scope_id", "user_id", "content_key"],
        {"unique": True, "postgresql_where": sa.text("content_key IS NOT NULL AND superseded_by IS NULL")},
    ),
}
SCOPE = "private: direct messages only; server: also on that server"
SCOPE_NOW = (
    f"{SCOPE}; everywhere: in all places of the person; conversation: what was said in a channel, for everybody there."
)
SOURCE = "fact: remembered on its own; turn: part of a conversation, with neighbours."
SOURCE_NOW = "remembered: as the person asked; fact: stated by the way; turn: a message, with neighbours."
PLATFORM = "The platform where it was said"
POSTINGS = "Which word occurs in which memory: recall by words reads a few ranges of the primary key."


def upgrade() -> None:
    """Make the tables and columns; the release before does not look at them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    _make_scopes()
    _make_words()
    _widen_memories()
    op.add_column(
        "memory_vectors",
        sa.Column(
            "scope_id", sa.BigInteger(), nullable=True, comment="Who may see the memory; filled in by the database."
        ),
    )
    for name in FUNCTIONS:
        # The driver takes the text as it stands: no parameters, so several statements at once.
        op.get_bind().exec_driver_sql((SQL / f"{name}.sql").read_text("utf-8").replace("%", "%%"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {name} TO parley_app")
    op.execute(TRIGGERS)


def _make_scopes() -> None:
    op.create_table(
        "memory_scopes",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column(
            "scope",
            sa.Text(),
            nullable=False,
            comment="private: the person, in direct messages; server: the person, on that server; everywhere: the person,"
            " in all places; conversation: everybody in that channel.",
        ),
        sa.Column("user_id", sa.BigInteger(), nullable=True, comment="Whose memories; NULL: those of a channel."),
        sa.Column("platform", sa.Text(), nullable=True, comment="The platform; NULL: all of them."),
        sa.Column(
            "platform_server_id",
            sa.Text(),
            nullable=True,
            comment="Server or workspace; where there is none, the channel. NULL: all of them.",
        ),
        sa.Column("platform_channel_id", sa.Text(), nullable=True, comment="The channel; NULL: all of them."),
        sa.Column(
            "platform_thread_id",
            sa.Text(),
            nullable=True,
            comment="A thread that fewer people read than its channel; NULL: the channel with its other threads.",
        ),
        *(
            sa.Column(name, sa.BigInteger(), server_default=sa.text("'0'"), nullable=False, comment=comment)
            for name, comment in (
                ("memories", "Number of indexed memories; kept by the database."),
                ("words", "Number of words of these memories; kept by the database."),
            )
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        *(
            sa.CheckConstraint(rule, name=op.f(f"memory_scopes_{name}"))
            for name, rule in (
                ("scope_is_known", KNOWN_SCOPE),
                ("what_belongs_to_a_person_names_them", "(scope = 'conversation') = (user_id IS NULL)"),
                ("what_belongs_to_a_place_names_it", "(scope IN ('private', 'everywhere')) = (platform IS NULL)"),
                ("a_platform_comes_with_a_server", "(platform IS NULL) = (platform_server_id IS NULL)"),
                ("a_conversation_has_a_channel", "(scope = 'conversation') = (platform_channel_id IS NOT NULL)"),
                ("a_thread_is_of_a_conversation", "platform_thread_id IS NULL OR scope = 'conversation'"),
                ("totals_are_not_negative", "memories >= 0 AND words >= 0"),
            )
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_memory_scopes_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_memory_scopes")),
        comment="Who may see memories: each belongs to one of these rows, and a turn sees the rows of its place.",
    )
    op.create_index(
        "uq_memory_scopes_place",
        "memory_scopes",
        ["user_id", "scope", "platform", "platform_channel_id", "platform_server_id", "platform_thread_id"],
        unique=True,
        postgresql_nulls_not_distinct=True,
    )
    # Functions alone change it.
    op.execute("REVOKE INSERT, UPDATE, DELETE ON memory_scopes FROM parley_app")


def _make_words() -> None:
    op.create_table(
        "memory_words",
        sa.Column("scope_id", sa.BigInteger(), nullable=False, comment="Who may see the memory."),
        sa.Column(
            "term", sa.Text(), nullable=False, comment="The word, folded and stemmed; a pair of characters in Chinese."
        ),
        sa.Column("ordinal", sa.BigInteger(), nullable=False, comment="The memory's place in its scope."),
        sa.Column("memory_id", sa.BigInteger(), nullable=False, comment="The memory."),
        sa.Column("tf", sa.Integer(), nullable=False, comment="How often the word occurs."),
        sa.Column("length", sa.Integer(), nullable=False, comment="Number of words of the memory."),
        sa.Column("said_at", sa.DateTime(timezone=True), nullable=False, comment="When the memory was said."),
        sa.CheckConstraint("tf > 0 AND length > 0", name=op.f("memory_words_numbers_are_positive")),
        sa.CheckConstraint("char_length(term) BETWEEN 1 AND 64", name=op.f("memory_words_term_has_1_to_64_characters")),
        sa.ForeignKeyConstraint(
            ["memory_id"], ["memories.id"], name=op.f("fk_memory_words_memory_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint(
            "scope_id",
            "term",
            "ordinal",
            name=op.f("pk_memory_words"),
            postgresql_include=["tf", "length", "said_at"],
        ),
        comment="Which word occurs in which memory: recall reads a few ranges of the primary key.",
    )
    op.create_index(op.f("ix_memory_words_memory_id"), "memory_words", ["memory_id"])
    op.execute("REVOKE INSERT, UPDATE, DELETE ON memory_words FROM parley_app")
    op.execute(EAGER)
    op.create_table_comment(
        "memory_postings", "Words of memories, for the release before; see memory_words.", existing_comment=POSTINGS
    )


def _memory_columns() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("scope_id", sa.BigInteger(), nullable=True, comment="Who may see it; filled in by the database."),
        sa.Column(
            "ordinal",
            sa.BigInteger(),
            nullable=True,
            comment="Its place in the scope: the message before it in the conversation has the ordinal before. NULL: not"
            " indexed yet.",
        ),
        sa.Column(
            "is_indexed",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Can recall find it by its words? A worker indexes new rows.",
        ),
        sa.Column("turn_id", sa.BigInteger(), nullable=True, comment="The turn it was said in."),
        sa.Column(
            "platform_message_id",
            sa.Text(),
            nullable=True,
            comment="The message it comes from, by the platform's id: deleted there, it is deleted here.",
        ),
        sa.Column(
            "is_from_bot",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Is it an answer of Parley's own?",
        ),
        sa.Column(
            "confidence",
            sa.REAL(),
            nullable=True,
            comment="How sure a fact is, from 0 to 1; NULL: said in these words.",
        ),
        sa.Column(
            "superseded_by",
            sa.BigInteger(),
            nullable=True,
            comment="The later fact that replaces it: this one is history, and is not recalled.",
        ),
    )


def _widen_memories() -> None:
    for column in _memory_columns():
        op.add_column("memories", column)
    op.alter_column("memories", "platform", nullable=True, comment=f"{PLATFORM}; NULL: not known.")
    op.alter_column("memories", "scope", comment=SCOPE_NOW)
    op.alter_column("memories", "source", comment=SOURCE_NOW)
    op.alter_column("memories", "user_id", comment="Whose memory: who said it, or was answered by it.")
    op.drop_constraint("memories_scope_is_private_or_server", "memories")
    op.drop_constraint("memories_server_scope_names_its_server", "memories")
    for name, rule in CHECKS.items():
        op.create_check_constraint(op.f(f"memories_{name}"), "memories", rule)
    for column_name, table, action in (
        ("scope_id", "memory_scopes", "CASCADE"),
        ("turn_id", "turns", "SET NULL"),
        ("superseded_by", "memories", "CASCADE"),
    ):
        key = op.f(f"fk_memories_{column_name}")
        op.create_foreign_key(key, "memories", table, [column_name], ["id"], ondelete=action)
    for name, (columns, options) in INDEXES.items():
        op.create_index(name, "memories", columns, **options)


def downgrade() -> None:
    """Drop them; what the release before has no scope for is deleted."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.execute(DROP_TRIGGERS)
    for name in reversed(FUNCTIONS):
        op.execute(f"DROP FUNCTION {name}")
    op.drop_column("memory_vectors", "scope_id")
    op.execute("DELETE FROM memories WHERE scope NOT IN ('private', 'server')")
    op.execute("UPDATE memories SET platform = '' WHERE platform IS NULL")
    for name in INDEXES:
        op.drop_index(name, "memories")
    for name in CHECKS:
        op.drop_constraint(f"memories_{name}", "memories")
    for column in _memory_columns():
        op.drop_column("memories", column.name)
    op.alter_column("memories", "platform", nullable=False, comment=f"{PLATFORM}.")
    op.alter_column("memories", "scope", comment=f"{SCOPE}.")
    op.alter_column("memories", "source", comment=SOURCE)
    op.alter_column("memories", "user_id", comment="Whose memory.")
    op.create_check_constraint(
        op.f("memories_scope_is_private_or_server"), "memories", "scope IN ('private', 'server')"
    )
    op.create_check_constraint(
        op.f("memories_server_scope_names_its_server"),
        "memories",
        "scope = 'private' OR platform_server_id IS NOT NULL",
    )
    op.create_table_comment("memory_postings", POSTINGS)
    op.drop_table("memory_words")
    op.drop_table("memory_scopes")
