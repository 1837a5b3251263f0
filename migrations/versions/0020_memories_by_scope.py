"""Memories move into their scopes, and row-level security follows the scopes: it separates persons and places.

A transaction names its person (`parley.user_id`) and its place (`parley.platform`, `parley.server`, `parley.channel`,
`parley.thread`, `parley.is_direct`); without a condition of its own it then sees what that turn may see. A person without
a place is what background work and the release before name: they see what is that person's own.
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

# The rows' own words move as they are; those of the windows are no longer kept.
MOVE = """
UPDATE memories SET scope_id = parley_memory_scope_v1(scope, user_id, platform, platform_server_id, NULL, NULL)
WHERE scope_id IS NULL;
UPDATE memory_vectors AS v SET scope_id = m.scope_id FROM memories AS m WHERE m.id = v.memory_id AND v.scope_id IS NULL;
UPDATE memories AS m SET is_indexed = true, ordinal = n.ordinal FROM (
    SELECT id, CASE WHEN source = 'turn' AND conversation_id IS NOT NULL
                    THEN ((conversation_id & 1073741823) << 31)
                         + row_number() OVER (PARTITION BY scope_id, conversation_id, source ORDER BY id)
                    ELSE 4611686018427387904 + 2 * id END AS ordinal
    FROM memories WHERE NOT is_indexed AND turn_length > 0
) AS n WHERE n.id = m.id AND m.ordinal IS NULL;
INSERT INTO memory_words (scope_id, term, ordinal, memory_id, tf, length, said_at)
SELECT m.scope_id, p.term, m.ordinal, m.id, p.tf, m.turn_length, m.said_at
FROM memory_postings AS p JOIN memories AS m ON m.id = p.memory_id
WHERE p.kind = 'turn' AND m.is_indexed
ON CONFLICT DO NOTHING;
UPDATE memory_scopes AS s SET memories = c.memories, words = c.words FROM (
    SELECT scope_id, count(*) AS memories, sum(turn_length) AS words FROM memories WHERE is_indexed GROUP BY scope_id
) AS c WHERE c.scope_id = s.id;
"""

ME = "nullif(current_setting('parley.user_id', true), '')::bigint"
NO_PLACE = "coalesce(current_setting('parley.platform', true), '') = ''"
IS_DIRECT = "current_setting('parley.is_direct', true) = 'true'"
PLATFORM, SERVER, CHANNEL, THREAD = (
    f"current_setting('parley.{name}', true)" for name in ("platform", "server", "channel", "thread")
)
SEEN = f"""
    user_id = {ME} AND (
        {NO_PLACE} OR {IS_DIRECT} OR scope = 'everywhere'
        OR scope = 'server' AND platform = {PLATFORM} AND platform_server_id = {SERVER}
    )
    OR user_id IS NULL AND scope = 'conversation' AND platform = {PLATFORM} AND platform_channel_id = {CHANNEL}
       AND platform_server_id = {SERVER} AND (platform_thread_id IS NULL OR platform_thread_id = {THREAD})
       AND current_setting('parley.is_direct', true) = 'false'
"""
# In direct messages a person also sees what they said in channels, to list and forget it.
OF_SEEN_SCOPE = "scope_id IN (SELECT id FROM memory_scopes)"
OWN = f"user_id = {ME} AND ({NO_PLACE} OR {IS_DIRECT})"
POLICIES = {
    "memories": f"{OF_SEEN_SCOPE} OR {OWN}",
    "memory_vectors": f"{OF_SEEN_SCOPE} OR {OWN}",
    "memory_words": OF_SEEN_SCOPE,
    # The release before alone reads it, and it names no place.
    "memory_postings": f"user_id = {ME} AND {NO_PLACE}",
}
BEFORE = ("memories", "memory_postings", "memory_vectors")


def upgrade() -> None:
    """Move the rows, then let the policies follow the scopes."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.execute(MOVE)
    for table in ("memories", "memory_vectors"):
        op.alter_column(table, "scope_id", existing_type=sa.BigInteger(), nullable=False)
    op.drop_index("ix_memories_visible", "memories")
    op.drop_index("uq_memories_private_content", "memories")
    op.drop_index("uq_memories_server_content", "memories")
    op.drop_index("ix_memory_vectors_of_user", "memory_vectors")
    op.create_index("ix_memory_vectors_of_user", "memory_vectors", ["user_id", "model"])
    op.create_index(
        "ix_memory_vectors_of_scope",
        "memory_vectors",
        ["scope_id", "model", "kind"],
        postgresql_include=["memory_id", "embedding"],
    )
    op.execute("ALTER TABLE memory_scopes ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE memory_words ENABLE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY memory_scopes_of_their_place ON memory_scopes TO parley_app USING ({SEEN})")
    for table in BEFORE:
        op.execute(f"DROP POLICY {table}_of_their_user ON {table}")
    for table, rule in POLICIES.items():
        op.execute(f"CREATE POLICY {table}_of_their_place ON {table} TO parley_app USING ({rule})")


def downgrade() -> None:
    """Let the policies follow the persons again."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for table in (*POLICIES, "memory_scopes"):
        op.execute(f"DROP POLICY {table}_of_their_place ON {table}")
    for table in BEFORE:
        op.execute(f"CREATE POLICY {table}_of_their_user ON {table} TO parley_app USING (user_id = {ME})")
    op.execute("ALTER TABLE memory_words DISABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE memory_scopes DISABLE ROW LEVEL SECURITY")
    op.drop_index("ix_memory_vectors_of_scope", "memory_vectors")
    op.drop_index("ix_memory_vectors_of_user", "memory_vectors")
    op.create_index(
        "ix_memory_vectors_of_user",
        "memory_vectors",
        ["user_id", "model", "kind"],
        postgresql_include=["memory_id", "embedding"],
    )
    op.create_index(
        "uq_memories_server_content",
        "memories",
        ["user_id", "platform", "platform_server_id", "content_key"],
        unique=True,
        postgresql_where=sa.text("scope = 'server'"),
    )
    op.create_index(
        "uq_memories_private_content",
        "memories",
        ["user_id", "content_key"],
        unique=True,
        postgresql_where=sa.text("scope = 'private'"),
    )
    op.create_index(
        "ix_memories_visible",
        "memories",
        ["user_id", "scope", "platform", "platform_server_id"],
        postgresql_include=["id", "said_at", "speaker", "turn_length", "window_length", "vector_model"],
    )
    for table in ("memories", "memory_vectors"):
        op.alter_column(table, "scope_id", existing_type=sa.BigInteger(), nullable=True)
