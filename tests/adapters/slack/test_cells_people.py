"""What a person may ask for after their workspace has moved."""

from tests.support.slack_cells import Workspace


async def test_who_has_moved_with_a_workspace_gets_and_erases_what_was_said_before(workspace: Workspace) -> None:
    slack, fred, pier, cells = workspace.scene.slack, workspace.fred, workspace.pier, workspace.cells
    await fred.direct("my walrus is called Rex")
    await fred.mentions(pier, "the walrus again")
    await fred.hears()
    await workspace.until_count("a", 2)
    await cells.until_remembered("a")
    await workspace.moves()
    exported = await fred.slash(pier, "/parley", "export")
    assert "The file is in our direct messages." in (await exported.answered())[0]
    (file,) = next(message["files"] for message in fred.written() if message.get("files"))
    texts = slack.world.contents[file["id"]].decode()
    assert "my walrus is called Rex" in texts
    assert "the walrus again" in texts

    asked = await fred.slash(fred.dm, "/parley", "erase me")
    await asked.answered()
    erased = await fred.presses(fred.dm, fred.whispers(fred.dm)[-1], "Yes, do it")
    await erased.answered()
    assert "You are erased." in erased.texts[0]
    # Private memories stay where they were; all that has moved is gone.
    for cell in "ab":
        for table in ("messages", "inbox", "outbox", "turn_events", "summaries", "file_records"):
            assert await cells.sql(cell, f"SELECT FROM {table} AS own WHERE own::text LIKE '%walrus%'") == []
    assert await cells.sql("b", "SELECT FROM memories") == []
    assert await cells.sql("b", "SELECT FROM users") == []
    assert await cells.sql("b", "SELECT FROM slack_installations WHERE installed_by IS NOT NULL") == []
