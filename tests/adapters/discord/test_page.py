"""docs/discord.md: it names the permissions that are asked for."""

from adapters.discord.doctor import NEEDED, USEFUL
from tests.support.documents import document

PAGE = document("docs/discord.md")


def test_the_permissions_on_the_page_are_those_that_the_invitation_asks_for() -> None:
    page = " ".join(PAGE.text.lower().split())

    assert [permission for permission in (*NEEDED, *USEFUL) if permission.replace("_", " ") not in page] == []
