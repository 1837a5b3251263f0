"""Vectors in batches of many persons, and a change of the embedding model without a gap.

Each scope of memories names the model whose vectors answer there; it changes once those of the new model are complete. What
a model's vectors look like is written down, so that a provider that changes its mind is noticed.
"""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
# A function comes after those it calls.
FOR_THE_PROGRAM = (
    "parley_claim_vectors_v1",
    "parley_texts_to_embed_v1",
    "parley_store_vectors_v1",
    "parley_switch_vectors_v1",
    "parley_vectors_progress_v1",
    "parley_charge_embeddings_v1",
)
FOR_THE_OWNER = "parley_drop_vectors_v1"

# The model of most vectors answers; the release before writes no model to the scopes.
ANSWERING = """
UPDATE memory_scopes AS s SET vector_model = (
    SELECT m.vector_model FROM memories AS m WHERE m.scope_id = s.id AND m.vector_model IS NOT NULL
    GROUP BY m.vector_model ORDER BY count(*) DESC LIMIT 1
)
"""
KNOWN_MODELS = """
INSERT INTO embedding_models (model, dimensions)
SELECT model, dimensions FROM (
    SELECT DISTINCT ON (model) model, vector_dims(embedding) AS dimensions, count(*) AS vectors
    FROM memory_vectors GROUP BY model, vector_dims(embedding) ORDER BY model, vectors DESC
) AS found
"""


def upgrade() -> None:
    """Make the table, the column and the functions; the release before does not look at them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.create_table(
        "embedding_models",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("model", sa.Text(), nullable=False, comment="litellm name of the embedding model."),
        sa.Column("dimensions", sa.Integer(), nullable=False, comment="The dimensions of its first vector."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint("model <> ''", name=op.f("embedding_models_model_is_not_empty")),
        sa.CheckConstraint("dimensions BETWEEN 1 AND 1280", name=op.f("embedding_models_dimensions_fit_an_index")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_embedding_models")),
        sa.UniqueConstraint("model", name=op.f("uq_embedding_models_model")),
        comment="Embedding models whose vectors are stored: vectors with other dimensions are refused.",
    )
    op.add_column(
        "memory_scopes",
        sa.Column(
            "vector_model",
            sa.Text(),
            nullable=True,
            comment="The embedding model whose vectors answer questions here; NULL: none yet. Kept by the database.",
        ),
    )
    op.execute(ANSWERING)
    op.execute(KNOWN_MODELS)
    for name in (*FOR_THE_PROGRAM, FOR_THE_OWNER):
        # The driver takes the text as it stands: no parameters, so several statements at once.
        op.get_bind().exec_driver_sql((SQL / f"{name}.sql").read_text("utf-8").replace("%", "%%"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC")
    for name in FOR_THE_PROGRAM:
        op.execute(f"GRANT EXECUTE ON FUNCTION {name} TO parley_app")
    # Functions alone change it.
    op.execute("REVOKE INSERT, UPDATE, DELETE ON embedding_models FROM parley_app")


def downgrade() -> None:
    """Drop them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for name in reversed((*FOR_THE_PROGRAM, FOR_THE_OWNER)):
        op.execute(f"DROP FUNCTION {name}")
    op.drop_column("memory_scopes", "vector_model")
    op.drop_table("embedding_models")
