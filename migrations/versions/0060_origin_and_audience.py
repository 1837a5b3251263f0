"""What is stored says who may have written it, and what an MCP server returns counts as private unless an admin knows."""

import sqlalchemy as sa
from alembic import op

revision = "0060"
down_revision = "0059"
branch_labels = None
depends_on = None

AUTHOR = "Who may have written {}: person, whose it is; stranger, whose text the model had read."
WRITTEN = {"memories": "it", "scheduled_jobs": "what it says"}
IS_KNOWN = "author IN ('person', 'stranger')"
IS_PRIVATE = "Do its results hold what not everybody may know, such as mail? Off only where all of it is public."
WAS_PRIVATE = "Do its results hold what not everybody may know, such as mail?"


def upgrade() -> None:
    """Add the author of memories and jobs; let results of MCP servers be private by default."""
    for table, what in WRITTEN.items():
        author = sa.Column("author", sa.Text(), server_default="person", nullable=False, comment=AUTHOR.format(what))
        op.add_column(table, author)
        op.create_check_constraint(op.f(f"{table}_author_is_person_or_stranger"), table, IS_KNOWN)
    op.alter_column(
        "mcp_servers",
        "reads_private",
        existing_type=sa.Boolean(),
        server_default=sa.text("true"),
        comment=IS_PRIVATE,
    )


def downgrade() -> None:
    """Remove the authors."""
    op.alter_column(
        "mcp_servers",
        "reads_private",
        existing_type=sa.Boolean(),
        server_default=sa.text("false"),
        comment=WAS_PRIVATE,
    )
    for table in WRITTEN:
        op.drop_column(table, "author")
