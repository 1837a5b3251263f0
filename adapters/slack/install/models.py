"""Workspaces that have installed the app."""

from datetime import datetime

from sqlalchemy.orm import Mapped

from shared.models.base import Base, Row


class SlackInstallation(Row, Base):
    """A workspace that has installed the app through OAuth."""

    __tablename__ = "slack_installations"

    team_id: Mapped[str]
    team_name: Mapped[str | None]
    enterprise_id: Mapped[str | None]
    app_id: Mapped[str | None]
    bot_id: Mapped[str | None]
    bot_user_id: Mapped[str]
    scopes: Mapped[str]
    token: Mapped[str | None]
    installed_by: Mapped[str | None]
    installed_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    ended_because: Mapped[str | None]
