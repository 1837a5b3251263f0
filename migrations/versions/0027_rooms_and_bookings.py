"""Rooms, their rates and bookings, for the module pms; the release before does not know them.

The embedded server has no btree_gist: as a range, a room's number has a GiST index without it.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.create_table(
        "rooms",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("name", sa.Text(), nullable=False, comment="What people call it, unique, e.g. Garden suite."),
        sa.Column("description", sa.Text(), server_default="", nullable=False, comment="What guests should know."),
        sa.Column("capacity", sa.Integer(), server_default=sa.text("2"), nullable=False, comment="Most guests."),
        sa.Column(
            "currency", sa.Text(), server_default="EUR", nullable=False, comment="The currency of its rates, e.g. EUR."
        ),
        sa.Column(
            "is_active",
            sa.Boolean(),
            server_default=sa.text("true"),
            nullable=False,
            comment="Off: not offered; bookings that exist stay.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "btrim(name) = name AND name <> ''", name=op.f("rooms_name_is_not_empty_and_has_no_outer_spaces")
        ),
        sa.CheckConstraint("currency ~ '^[A-Z]{3}$'", name=op.f("rooms_currency_is_three_capital_letters")),
        sa.CheckConstraint("capacity BETWEEN 1 AND 100", name=op.f("rooms_capacity_is_1_to_100")),
        sa.CheckConstraint(
            "char_length(description) <= 500", name=op.f("rooms_description_has_at_most_500_characters")
        ),
        sa.CheckConstraint("char_length(name) <= 80", name=op.f("rooms_name_has_at_most_80_characters")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rooms")),
        comment="Rooms of the module pms. One without rates is not offered.",
    )
    op.create_index("uq_rooms_name", "rooms", [sa.literal_column("lower(name)")], unique=True)
    op.create_table(
        "bookings",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("room_id", sa.BigInteger(), nullable=False, comment="The room."),
        sa.Column("user_id", sa.BigInteger(), nullable=True, comment="Who booked; NULL: staff, or a user who is gone."),
        sa.Column(
            "stay",
            postgresql.DATERANGE(),
            nullable=False,
            comment="From the day of arrival, to that of departure exclusively, e.g. [2026-12-04,2026-12-06).",
        ),
        sa.Column("guests", sa.Integer(), server_default=sa.text("1"), nullable=False, comment="How many."),
        sa.Column("status", sa.Text(), server_default="booked", nullable=False, comment="held, booked or cancelled."),
        sa.Column(
            "held_until",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="held: from then on others may have the room.",
        ),
        sa.Column(
            "total",
            sa.Numeric(precision=12, scale=2),
            server_default=sa.text("0"),
            nullable=False,
            comment="The agreed price, in the room's currency.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        postgresql.ExcludeConstraint(
            (sa.text("int8range(room_id, room_id, '[]')"), "&&"),
            (sa.column("stay"), "&&"),
            where=sa.text("status IN ('held', 'booked')"),
            using="gist",
            name="a_room_is_booked_once",
        ),
        sa.CheckConstraint("status <> 'held' OR held_until IS NOT NULL", name=op.f("bookings_held_needs_held_until")),
        sa.CheckConstraint(
            "status IN ('held', 'booked', 'cancelled')", name=op.f("bookings_status_is_held_booked_or_cancelled")
        ),
        sa.CheckConstraint(
            "NOT isempty(stay) AND NOT lower_inf(stay) AND NOT upper_inf(stay)",
            name=op.f("bookings_stay_has_both_days"),
        ),
        sa.CheckConstraint("guests BETWEEN 1 AND 100", name=op.f("bookings_guests_is_1_to_100")),
        sa.CheckConstraint("total >= 0", name=op.f("bookings_total_is_not_negative")),
        sa.ForeignKeyConstraint(["room_id"], ["rooms.id"], name=op.f("fk_bookings_room_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_bookings_user_id"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bookings")),
        comment="Stays. A room can't be held or booked twice for a night.",
    )
    op.create_index(op.f("ix_bookings_room_id"), "bookings", ["room_id"], unique=False)
    op.create_index(op.f("ix_bookings_user_id"), "bookings", ["user_id"], unique=False)
    op.create_table(
        "room_rates",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("room_id", sa.BigInteger(), nullable=False, comment="The room."),
        sa.Column(
            "days",
            postgresql.DATERANGE(),
            nullable=False,
            comment="The nights, by their evening, e.g. [2026-12-01,2027-01-01) for December.",
        ),
        sa.Column(
            "price", sa.Numeric(precision=12, scale=2), nullable=False, comment="For one night, for the whole room."
        ),
        sa.Column(
            "min_nights",
            sa.Integer(),
            server_default=sa.text("1"),
            nullable=False,
            comment="Fewest nights of a stay that begins in these days.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        postgresql.ExcludeConstraint(
            (sa.text("int8range(room_id, room_id, '[]')"), "&&"),
            (sa.column("days"), "&&"),
            using="gist",
            name="one_rate_for_each_night_of_a_room",
        ),
        sa.CheckConstraint("NOT isempty(days)", name=op.f("room_rates_days_is_not_empty")),
        sa.CheckConstraint("min_nights BETWEEN 1 AND 365", name=op.f("room_rates_min_nights_is_1_to_365")),
        sa.CheckConstraint("price >= 0", name=op.f("room_rates_price_is_not_negative")),
        sa.ForeignKeyConstraint(["room_id"], ["rooms.id"], name=op.f("fk_room_rates_room_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_room_rates")),
        comment="Prices of rooms. A night without a rate can't be booked.",
    )
    op.create_index(op.f("ix_room_rates_room_id"), "room_rates", ["room_id"], unique=False)


def downgrade() -> None:
    """Drop the tables, those that name others first."""
    op.drop_table("room_rates")
    op.drop_table("bookings")
    op.drop_table("rooms")
