"""Slack workspaces that have installed the app, and their user groups."""

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, DateTime, Double, ForeignKey, Text, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class SlackInstallation(Row, Base):
    """A workspace that has installed the app through OAuth."""

    __tablename__ = "slack_installations"
    __table_args__ = (
        UniqueConstraint("team_id"),
        CheckConstraint("(token IS NULL) = (ended_at IS NOT NULL)", name="token_goes_when_it_ends"),
        CheckConstraint("(ended_at IS NULL) = (ended_because IS NULL)", name="ended_at_and_ended_because_go_together"),
        CheckConstraint(
            "ended_because IN ('uninstalled', 'revoked', 'removed')",
            name="ended_because_is_a_known_reason",
        ),
        {"comment": "Slack workspaces that have installed the app. One in SLACK_BOT_TOKEN needs no row."},
    )

    team_id: Mapped[str] = mapped_column(Text, comment="Id of the workspace.")
    team_name: Mapped[str | None] = mapped_column(Text, comment="Its name when it was installed.")
    enterprise_id: Mapped[str | None] = mapped_column(Text, comment="Id of the organisation that it belongs to.")
    app_id: Mapped[str | None] = mapped_column(Text, comment="Id of the app.")
    bot_id: Mapped[str | None] = mapped_column(Text, comment="Id of the bot there.")
    bot_user_id: Mapped[str] = mapped_column(Text, comment="The bot's account there.")
    scopes: Mapped[str] = mapped_column(Text, server_default="", comment="What the bot may do, with commas between.")
    token: Mapped[str | None] = mapped_column(
        Text, comment="The bot's token, encrypted with SECRET_KEY; NULL: the workspace has ended it."
    )
    installed_by: Mapped[str | None] = mapped_column(Text, comment="Account of whoever installed it.")
    installed_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="When it was installed last."
    )
    ended_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True), comment="When the token was wiped.")
    ended_because: Mapped[str | None] = mapped_column(
        Text, comment="uninstalled or revoked by the workspace; removed: by this house."
    )


class SlackOAuthState(Row, Base):
    """An OAuth flow that was started in a browser, identified by its state."""

    __tablename__ = "slack_oauth_states"
    __table_args__ = (
        UniqueConstraint("state_hash"),
        {"comment": "Installations that were begun: each may be finished once, in the same browser."},
    )

    state_hash: Mapped[str] = mapped_column(Text, comment="SHA-256 of what the browser brings back.")
    expires_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), comment="Until when it may be finished.")


class SlackPace(Row, Base):
    """The pace of calls in a channel in which Slack has refused one for its number."""

    __tablename__ = "slack_paces"
    __table_args__ = (
        UniqueConstraint("team_id", "method", "platform_channel_id"),
        CheckConstraint("distance_seconds > 0", name="distance_is_positive"),
        {"comment": "Channels that Slack has limited: one pace of calls over all processes, kept for a day."},
    )

    team_id: Mapped[str] = mapped_column(Text, comment="Id of the workspace.")
    method: Mapped[str] = mapped_column(Text, comment="The method of the Web API.")
    platform_channel_id: Mapped[str] = mapped_column(Text, comment="Slack's id of the channel.")
    next_call_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), comment="When the calls reserved so far have their turn."
    )
    distance_seconds: Mapped[float] = mapped_column(Double, comment="Seconds between two calls.")
    limited_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="When Slack last refused a call."
    )


class SlackGroupList(Row, Base):
    """When the user groups of a workspace were last read."""

    __tablename__ = "slack_group_lists"
    __table_args__ = (
        UniqueConstraint("team_id"),
        {"comment": "Slack workspaces whose user groups were read; the program keeps them."},
    )

    team_id: Mapped[str] = mapped_column(Text, comment="Id of the workspace.")
    read_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="When they were read; NULL: they have changed since."
    )
    changes: Mapped[int] = mapped_column(
        BigInteger, server_default="0", comment="How many changes Slack has told of; a reading from before one is old."
    )


class SlackGroupMember(Row, Base):
    """An account's membership in a user group."""

    __tablename__ = "slack_group_members"
    __table_args__ = (
        UniqueConstraint("list_id", "platform_user_id", "group_id"),
        {"comment": "Who is in which user group of Slack, as last read; role_grants says what that gives."},
    )

    list_id: Mapped[int] = mapped_column(
        ForeignKey("slack_group_lists.id", ondelete="CASCADE"), comment="The reading that it comes from."
    )
    platform_user_id: Mapped[str] = mapped_column(Text, comment="The account.")
    group_id: Mapped[str] = mapped_column(Text, comment="Id of the group: the role of role_grants.")
    group_name: Mapped[str] = mapped_column(Text, comment="Its name.")
