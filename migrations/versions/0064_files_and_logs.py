"""Files carry a checksum."""

import sqlalchemy as sa
from alembic import op

revision = "0064"
down_revision = "0063"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the checksum of files."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.add_column(
        "file_records",
        sa.Column(
            "sha256",
            sa.Text(),
            nullable=True,
            comment="SHA-256 of the bytes as they were stored, compared whenever they are read.",
        ),
    )
    op.create_check_constraint(
        op.f("file_records_sha256_is_64_hexadecimal_digits"), "file_records", "sha256 ~ '^[0-9a-f]{64}$'"
    )


def downgrade() -> None:
    """Drop the checksum."""
    op.drop_column("file_records", "sha256")
