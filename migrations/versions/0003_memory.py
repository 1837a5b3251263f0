"""What is remembered about people, the words and the vectors by which it is found, each row for its user's eyes only.

Row-level security stands behind the program's own conditions: `parley_app` sees the rows of the user that its transaction
names with `set_config('parley.user_id', …, true)`, and without it none. The one question asked across users, which
memories still lack vectors, is a function that tells ids alone.
"""

import sqlalchemy as sa
from alembic import op
from pgvector.sqlalchemy import HALFVEC

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TABLES = ("memories", "memory_postings", "memory_vectors")

# A setting that was made in an earlier transaction of the connection reads as empty, not as NULL.
PRIVATE = """
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
CREATE POLICY {table}_of_their_user ON {table} TO parley_app
    USING (user_id = nullif(current_setting('parley.user_id', true), '')::bigint)
"""

# Index-only scans stay so only while vacuum keeps up with new rows.
EAGER = """
ALTER TABLE {table} SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 500
)
"""

CLAIM = """
CREATE FUNCTION parley_claim_memories_without_vectors(wanted_model text, most integer)
RETURNS TABLE (user_id bigint, memory_id bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    UPDATE memories AS m SET vectors_due_at = now() + interval '1 minute'
    WHERE m.id IN (
        SELECT d.id FROM memories AS d
        WHERE (d.vector_model IS NULL OR d.vector_model < wanted_model OR d.vector_model > wanted_model)
              AND d.vectors_due_at <= now()
        ORDER BY d.vectors_due_at LIMIT most FOR UPDATE SKIP LOCKED
    )
    RETURNING m.user_id, m.id
$$;
COMMENT ON FUNCTION parley_claim_memories_without_vectors IS
    'Ids of memories that lack vectors of this embedding model; for a minute nobody else is given them.';
REVOKE EXECUTE ON FUNCTION parley_claim_memories_without_vectors FROM PUBLIC;
GRANT EXECUTE ON FUNCTION parley_claim_memories_without_vectors TO parley_app
"""


# Most people have nothing remembered: their turns need not look.
MARK_OWNER = """
CREATE FUNCTION parley_mark_owner_of_memory() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE users SET has_memories = true WHERE id = NEW.user_id AND NOT has_memories;
    RETURN NULL;
END
$$;
CREATE TRIGGER parley_mark_owner_of_memory AFTER INSERT ON memories
    FOR EACH ROW EXECUTE FUNCTION parley_mark_owner_of_memory();
"""


def upgrade() -> None:
    """Make the tables, then close them."""
    op.add_column(
        "users",
        sa.Column(
            "has_memories",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Was anything ever remembered? Set by the database; saves a search for nothing.",
        ),
    )
    op.create_table(
        "memories",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="Whose memory."),
        sa.Column(
            "scope",
            sa.Text(),
            server_default="private",
            nullable=False,
            comment="private: direct messages only; server: also on that server.",
        ),
        sa.Column("platform", sa.Text(), nullable=False, comment="The platform where it was said."),
        sa.Column(
            "platform_server_id",
            sa.Text(),
            nullable=True,
            comment="Server or workspace; where there is none, the channel. NULL in direct messages.",
        ),
        sa.Column("conversation_id", sa.BigInteger(), nullable=True, comment="The conversation it was said in."),
        sa.Column(
            "said_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was said.",
        ),
        sa.Column("speaker", sa.Text(), nullable=True, comment="Who said it, by name."),
        sa.Column("content", sa.Text(), nullable=False, comment="The text, at most 2,000 characters."),
        sa.Column(
            "content_key",
            sa.Text(),
            nullable=True,
            comment="Hash of the text whatever its case and spaces: the same thing is kept once.",
        ),
        sa.Column(
            "source",
            sa.Text(),
            server_default="fact",
            nullable=False,
            comment="fact: remembered on its own; turn: part of a conversation, with neighbours.",
        ),
        sa.Column(
            "turn_length", sa.Integer(), server_default="0", nullable=False, comment="Number of words of the text."
        ),
        sa.Column(
            "window_length",
            sa.Integer(),
            nullable=True,
            comment="Number of words of the text with its two neighbours; NULL: it has none.",
        ),
        sa.Column(
            "vector_model",
            sa.Text(),
            nullable=True,
            comment="The embedding model whose vectors are complete; NULL: none yet.",
        ),
        sa.Column(
            "vectors_due_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now() + interval '10 seconds'"),
            nullable=False,
            comment="When a worker makes the vectors that are missing; who is at it moves this on.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint("btrim(content) <> ''", name=op.f("memories_content_is_not_empty")),
        sa.CheckConstraint(
            "scope = 'private' OR platform_server_id IS NOT NULL", name=op.f("memories_server_scope_names_its_server")
        ),
        sa.CheckConstraint("scope IN ('private', 'server')", name=op.f("memories_scope_is_private_or_server")),
        sa.CheckConstraint("source <> ''", name=op.f("memories_source_is_not_empty")),
        sa.CheckConstraint("char_length(content) <= 2000", name=op.f("memories_content_is_at_most_2000_characters")),
        sa.CheckConstraint("turn_length >= 0 AND window_length >= 0", name=op.f("memories_lengths_are_not_negative")),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_memories_conversation_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_memories_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_memories")),
        comment="What is remembered about people. Private ones never leave direct messages.",
    )
    op.create_index("ix_memories_conversation", "memories", ["conversation_id", "id"], unique=False)
    op.create_index("ix_memories_vector_model", "memories", ["vector_model", "vectors_due_at"], unique=False)
    op.create_index(
        "ix_memories_visible",
        "memories",
        ["user_id", "scope", "platform", "platform_server_id"],
        unique=False,
        postgresql_include=["id", "said_at", "speaker", "turn_length", "window_length", "vector_model"],
    )
    op.create_index(
        "uq_memories_private_content",
        "memories",
        ["user_id", "content_key"],
        unique=True,
        postgresql_where=sa.text("scope = 'private'"),
    )
    op.create_index(
        "uq_memories_server_content",
        "memories",
        ["user_id", "platform", "platform_server_id", "content_key"],
        unique=True,
        postgresql_where=sa.text("scope = 'server'"),
    )
    op.create_table(
        "memory_postings",
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="Whose memory."),
        sa.Column(
            "term", sa.Text(), nullable=False, comment="The word, folded and stemmed; a pair of characters in Chinese."
        ),
        sa.Column(
            "kind", sa.Text(), nullable=False, comment="turn: in the text; window: in the text or its neighbours."
        ),
        sa.Column("memory_id", sa.BigInteger(), nullable=False, comment="The memory."),
        sa.Column("tf", sa.Integer(), nullable=False, comment="How often the word occurs."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint("kind IN ('turn', 'window')", name=op.f("memory_postings_kind_is_turn_or_window")),
        sa.CheckConstraint(
            "char_length(term) BETWEEN 1 AND 64", name=op.f("memory_postings_term_has_1_to_64_characters")
        ),
        sa.CheckConstraint("tf > 0", name=op.f("memory_postings_tf_is_positive")),
        sa.ForeignKeyConstraint(
            ["memory_id"], ["memories.id"], name=op.f("fk_memory_postings_memory_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_memory_postings_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint(
            "user_id", "term", "kind", "memory_id", name=op.f("pk_memory_postings"), postgresql_include=["tf"]
        ),
        comment="Which word occurs in which memory: recall by words reads a few ranges of the primary key.",
    )
    op.create_index(op.f("ix_memory_postings_memory_id"), "memory_postings", ["memory_id"], unique=False)
    op.create_table(
        "memory_vectors",
        sa.Column("memory_id", sa.BigInteger(), nullable=False, comment="The memory."),
        sa.Column("model", sa.Text(), nullable=False, comment="litellm name of the embedding model."),
        sa.Column(
            "kind", sa.Text(), nullable=False, comment="turn: of the text; window: of the text with its neighbours."
        ),
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="Whose memory."),
        sa.Column("embedding", HALFVEC(), nullable=False, comment="The vector."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint("kind IN ('turn', 'window')", name=op.f("memory_vectors_kind_is_turn_or_window")),
        sa.CheckConstraint("model <> ''", name=op.f("memory_vectors_model_is_not_empty")),
        sa.CheckConstraint(
            "vector_dims(embedding) <= 1280", name=op.f("memory_vectors_embedding_has_at_most_1280_dimensions")
        ),
        sa.ForeignKeyConstraint(
            ["memory_id"], ["memories.id"], name=op.f("fk_memory_vectors_memory_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_memory_vectors_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("memory_id", "model", "kind", name=op.f("pk_memory_vectors")),
        comment="Embeddings of memories, beside each other for as many models as are in use.",
    )
    op.create_index(
        "ix_memory_vectors_of_user",
        "memory_vectors",
        ["user_id", "model", "kind"],
        unique=False,
        postgresql_include=["memory_id", "embedding"],
    )
    for table in TABLES:
        op.execute(PRIVATE.format(table=table))
        op.execute(EAGER.format(table=table))
    op.execute(CLAIM)
    op.execute(MARK_OWNER)


def downgrade() -> None:
    """Drop all of it."""
    op.execute("DROP FUNCTION parley_claim_memories_without_vectors")
    op.drop_table("memory_vectors")
    op.drop_table("memory_postings")
    op.drop_table("memories")
    op.execute("DROP FUNCTION parley_mark_owner_of_memory")
    op.drop_column("users", "has_memories")
