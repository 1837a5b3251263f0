"""Named places, positions of phones, and reminders on enter and leave, of the module location."""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; the release before does not look at them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.create_table(
        "location_places",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="Whose place it is."),
        sa.Column("name", sa.Text(), nullable=False, comment="What the person calls it, in lower case."),
        sa.Column("latitude", sa.Double(), nullable=False, comment="Degrees."),
        sa.Column("longitude", sa.Double(), nullable=False, comment="Degrees."),
        sa.Column(
            "radius_metres", sa.Integer(), server_default="150", nullable=False, comment="Who is nearer is there."
        ),
        sa.Column(
            "is_inside",
            sa.Boolean(),
            nullable=True,
            comment="Is the person there? NULL: no position since it was made.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint("latitude BETWEEN -90 AND 90", name=op.f("location_places_latitude_is_in_degrees")),
        sa.CheckConstraint("longitude BETWEEN -180 AND 180", name=op.f("location_places_longitude_is_in_degrees")),
        sa.CheckConstraint(
            "radius_metres BETWEEN 50 AND 50000", name=op.f("location_places_radius_is_50_to_50000_metres")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_location_places_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_location_places")),
        sa.UniqueConstraint("user_id", "name", name=op.f("uq_location_places_user_id_name")),
        comment="Named places of people, of the module location.",
    )
    op.create_table(
        "location_trackers",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="Whose phone it is."),
        sa.Column(
            "pairing_hash",
            sa.Text(),
            nullable=True,
            comment="SHA-256 of the code of a pairing link; NULL: none is open.",
        ),
        sa.Column(
            "pairing_until", sa.DateTime(timezone=True), nullable=True, comment="The pairing link opens until then."
        ),
        sa.Column("password_hash", sa.Text(), nullable=True, comment="SHA-256 of the password; NULL: not paired."),
        sa.Column("latitude", sa.Double(), nullable=True, comment="Degrees; NULL: nothing was reported."),
        sa.Column("longitude", sa.Double(), nullable=True, comment="Degrees."),
        sa.Column("accuracy_metres", sa.Double(), nullable=True, comment="How exact the position is."),
        sa.Column(
            "recorded_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="The phone's time of the position; an older one is dropped.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_location_trackers_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_location_trackers")),
        sa.UniqueConstraint("user_id", name=op.f("uq_location_trackers_user_id")),
        comment="Phones that report positions by OwnTracks, of the module location.",
    )
    op.create_table(
        "location_reminders",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="Whom it reminds."),
        sa.Column("place_id", sa.BigInteger(), nullable=False, comment="The place."),
        sa.Column("conversation_id", sa.BigInteger(), nullable=False, comment="Where it is said."),
        sa.Column("door", sa.Text(), nullable=False, comment="The adapter that sends it."),
        sa.Column("platform_user_id", sa.Text(), nullable=False, comment="The person's account there."),
        sa.Column("event", sa.Text(), nullable=False, comment="enter or leave."),
        sa.Column("content", sa.Text(), nullable=False, comment="The text."),
        sa.Column(
            "repeats",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Each time, not only once?",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint("event IN ('enter', 'leave')", name=op.f("location_reminders_event_is_enter_or_leave")),
        sa.CheckConstraint(
            "length(content) <= 4000", name=op.f("location_reminders_content_has_at_most_4000_characters")
        ),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_location_reminders_conversation_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["place_id"], ["location_places.id"], name=op.f("fk_location_reminders_place_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_location_reminders_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_location_reminders")),
        comment="Reminders on enter and leave, of the module location; a scheduled job says them.",
    )
    op.create_index(op.f("ix_location_reminders_conversation_id"), "location_reminders", ["conversation_id"])
    op.create_index(op.f("ix_location_reminders_place_id"), "location_reminders", ["place_id"])
    op.create_index(op.f("ix_location_reminders_user_id"), "location_reminders", ["user_id"])


def downgrade() -> None:
    """Drop them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.drop_table("location_reminders")
    op.drop_table("location_trackers")
    op.drop_table("location_places")
