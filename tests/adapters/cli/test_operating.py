"""What operators type: people, personas, SQL, a turn's story, a look at everything, a copy."""

import getpass
import json
import re

from adapters.slack.install.installations import Vault
from tests.adapters.cli.shell import Shell, cell


def test_psql_is_opened_as_an_admin_unless_told(shell: Shell) -> None:
    shell.says("persona", "create", "Mine", "--prompt", "Hello.")
    update = "UPDATE personas SET system_prompt = 'Hi.' WHERE name = 'Mine'"
    logged = "SELECT current_user, who FROM admin.audit LIMIT 1"
    assert cell(shell, f"{update}; {logged}") == f"UPDATE 1\nparley_admin|psql:{getpass.getuser()}"

    result = shell.run("psql", "--readonly", "-c", "TABLE admin.personas", "-c", "SELECT content FROM messages")

    assert (result.code, "Mine" in result.out, "permission denied" in result.err) == (1, True, True)
    assert cell(shell, "SHOW is_superuser", "--superuser") == "on"
    assert "exclude each other" in shell.run("psql", "--superuser", "--readonly").err
    shell.says("persona", "delete", "Mine", "--yes")


def test_an_account_is_promoted_before_its_first_message(shell: Shell) -> None:
    assert "Nobody has written from discord:80" in shell.run("user", "promote", "discord:80", "admin").err

    output = shell.says("user", "promote", "discord:80", "admin", "--new")

    assert output.endswith("(discord:80): admin, unlimited budget\n")
    assert "admin" in shell.says("user", "show", "discord:80")


def test_an_account_is_linked_and_moved_only_with_the_option(shell: Shell) -> None:
    shell.says("user", "set-budget", "discord:83", "1000", "--new")
    shell.says("user", "set-budget", "slack:U83", "2000", "--new")

    result = shell.run("user", "link", "discord:83", "slack:U83")
    assert result.code == 1
    assert "belongs to user" in result.err
    assert "--move" in result.err

    shell.says("user", "link", "discord:83", "slack:U83", "--move")
    assert "0 of 1,000" in shell.says("user", "show", "slack:U83")
    assert "discord:83, slack:U83" in shell.says("user", "list")


def test_tokens_of_slack_workspaces_are_encrypted_with_the_newest_key(shell: Shell) -> None:
    insert = "INSERT INTO slack_installations (team_id, bot_user_id, token) VALUES ('{}', 'U1', '{}')"
    cell(shell, insert.format("T1", Vault(["old"]).encrypt("T1", "xoxb-1")), "--superuser")

    assert shell.says("slack", "rotate-keys", SECRET_KEY="new,old").startswith("1 tokens are encrypted")
    assert Vault(["new"]).decrypt("T1", cell(shell, "SELECT token FROM slack_installations", "--superuser")) == "xoxb-1"
    lost = shell.run("slack", "rotate-keys", SECRET_KEY="newer")
    assert (lost.code, lost.out) == (1, "0 tokens are encrypted with the newest key\n")
    assert "no key of SECRET_KEY opens the tokens of T1" in lost.err
    cell(shell, "DELETE FROM slack_installations", "--superuser")


def test_people_are_found_by_name_unless_two_have_the_same(shell: Shell) -> None:
    for number in (84, 85):
        shell.says("user", "set-budget", f"discord:{number}", "1000", "--new")
    cell(shell, "UPDATE user_platform_links SET platform_username = 'Eve' WHERE platform_user_id IN ('84', '85')")

    assert "Several users are called eve" in shell.run("user", "show", "eve").err
    assert "There is no user called Evee (the nearest name is Eve);" in shell.run("user", "show", "Evee").err
    assert "There is no user 999999" in shell.run("user", "show", "999999").err


def test_personas_are_made_listed_and_made_the_default(shell: Shell) -> None:
    assert "There is no persona; the built-in one answers" in shell.says("persona", "list")
    prompt = shell.folder / "cook.md"
    prompt.write_text("You cook.\n")

    shell.says(
        "persona", "create", "Cook", "--prompt-file", str(prompt), "--modules", "knowledge, calculator", "--default"
    )
    shell.says("persona", "create", "Pirate", "--prompt", "Arr.", "--platform", "discord", "--server", "99")

    listing = shell.says("persona", "list")
    assert "default" in listing.splitlines()[2]
    assert "knowledge, calculator" in listing
    assert "discord / 99" in listing
    assert "belongs to a place" in shell.run("persona", "set-default", "Pirate").err
    shell.says("persona", "create", "Sage", "--prompt", "Teach.")
    shell.says("persona", "set-default", "Sage")
    assert cell(shell, "SELECT name FROM personas WHERE is_default") == "Sage"
    shell.says("persona", "set-default", "none")
    assert cell(shell, "SELECT count(*) FROM personas WHERE is_default") == "0"


def test_a_persona_is_shown_edited_in_the_editor_and_deleted(shell: Shell) -> None:
    shell.says("persona", "create", "Baker", "--prompt", "Bake bread.", "--modules", "knowledge")
    assert "allowed_modules  knowledge\n" in shell.says("persona", "show", "Baker")

    output = shell.says(
        "persona", "edit", "Baker", EDITOR="sed -i 's/Bake bread/Bake cake/; s/iterations: null/iterations: 3/'"
    )

    assert output == "Baker is stored; it counts from the next message on\n"
    persona = json.loads(shell.says("persona", "show", "Baker", "--json"))
    assert (persona["system_prompt"], persona["max_iterations"]) == ("Bake cake.", 3)
    assert shell.says("persona", "edit", "Baker", EDITOR="true") == "Baker is as it was\n"
    for command, reason in (
        ("s/iterations: 3/iterations: many/", "max_iterations is 'many'; it has to be a whole number, or null."),
        ("s/iterations: 3/iterations: 300/", "the rule is that max iterations is 1 to 100"),
        ("s/^Bake cake.//", "The prompt is empty."),
        ("s/^- /- [/", "The YAML can't be read"),
    ):
        result = shell.run("persona", "edit", "Baker", EDITOR=f"sed -i '{command}'")
        assert (result.code, reason in result.err) == (1, True), result.err
    assert json.loads(shell.says("persona", "show", "Baker", "--json")) == persona
    assert "Did you mean Baker?" in shell.run("persona", "show", "Bakker").err
    assert "0 turns" in shell.run("persona", "delete", "Baker").err
    assert shell.says("persona", "delete", "Baker", "--yes") == "Baker is deleted\n"


def test_grants_and_budgets_are_shown_and_changed(shell: Shell) -> None:
    shell.says("grant", "add", "discord:70", "admin", "--new")
    grants = [row for row in json.loads(shell.says("grant", "list", "--json")) if row["permission"] == "admin"]
    assert [(row["by"], row["budget"]) for row in grants][-1:] == [("person", None)]
    assert shell.says("grant", "remove", "discord:70").endswith("guest, 50,000 tokens in 30 days\n")
    shell.says("grant", "add", "discord:70", "admin", "--until", "2096-01-31")
    assert shell.says("user", "promote", "discord:70", "admin").endswith("admin, unlimited budget\n")
    assert shell.says("psql", "-Atc", "SELECT count(permission_until) FROM users").strip() == "0"
    assert shell.says("grant", "remove", "discord:70").endswith("guest, 50,000 tokens in 30 days\n")

    assert "is user until 2096-01-31 00:00" in shell.says("grant", "add", "discord:70", "user", "--until", "2096-01-31")
    assert "has passed already" in shell.run("grant", "add", "discord:70", "user", "--until", "2020-01-31").err
    assert "no end" in shell.run("grant", "add", "discord:70", "user", "--until", "soon").err
    for command in ("pause", "resume"):
        assert "70" in shell.says("user", command, "discord:70")
    assert "is not paused" in shell.run("user", "resume", "discord:70").err

    assert shell.says("budget", "set", "discord:70", "7000") == "70 may use 7000 tokens in 30 days\n"

    assert "budget     7,000\n" in shell.says("budget", "show", "discord:70")
    assert shell.says("budget", "set", "discord:70", "unlimited").endswith("any number of tokens in 30 days\n")
    assert any(row["budget"] is None for row in json.loads(shell.says("budget", "show", "--json")))


def test_a_change_is_listed_and_undone_and_a_changed_log_shows(shell: Shell) -> None:
    shell.says("persona", "create", "Undone", "--prompt", "Hello.")
    entry = cell(shell, "SELECT max(id) FROM audit_log")
    assert "Undone" in next(line for line in shell.says("audit", "list").splitlines() if "insert personas" in line)

    assert "is deleted again" in shell.says("audit", "undo", entry)

    assert "is undone already" in shell.run("audit", "undo", entry).err
    last = shell.says("audit", "verify").splitlines()[-1]
    shell.says("persona", "create", "Later", "--prompt", "Hello.")
    assert "none changed" in shell.says("audit", "verify", "--expect", last)
    assert shell.run("audit", "verify", "--expect", "0" * 64).code == 1
    off = "SET session_replication_role = replica"
    shell.says("psql", "--superuser", "-c", off, "-c", "UPDATE audit_log SET undoes = -id WHERE undoes IS NULL")
    assert shell.run("audit", "verify").code == 1
    assert "of audit_log was altered" in shell.run("doctor").out
    shell.says("psql", "--superuser", "-c", off, "-c", "UPDATE audit_log SET undoes = NULL WHERE undoes < 0")


def test_limits_are_listed_compared_with_the_ledger_and_set_right(shell: Shell) -> None:
    shell.says("psql", "-c", "SELECT admin.set_limit('installation', dollars => 7.5)")
    limit = next(line for line in shell.says("budget", "list").splitlines() if "installation" in line)
    assert limit.split()[2:8] == ["dollars", "7.5", "0", "0", "0", "7.5"]
    assert "is the sum of the ledger" in shell.says("budget", "check")

    shell.says("psql", "-c", "UPDATE budgets SET tokens_reserved = 70")

    result = shell.run("budget", "check")
    assert result.code == 1
    assert "tokens_reserved" in result.out
    assert "different: 1" in shell.run("doctor").out
    assert "1 counters were set" in shell.says("budget", "reconcile")
    assert "Nothing had to be changed" in shell.says("budget", "reconcile")
    shell.says("psql", "-c", "DELETE FROM budgets")


def test_skills_are_added_listed_shown_and_removed(shell: Shell) -> None:
    root = shell.folder / "skills"
    for name in ("meeting-notes", "in-folder", "broken"):
        (root / name).mkdir(parents=True)
        (root / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: About {name}.\n---\nDo {name}.\n")
    (root / "meeting-notes" / "form.md").write_text("Who?")
    (root / "broken" / "SKILL.md").write_text("---\nname: [\n---\nDo.")
    output = shell.says("skill", "add", str(root / "meeting-notes"))
    assert output == "skill meeting-notes: 17 characters, 1 files\n"
    assert "`--replace` replaces it" in shell.run("skill", "add", str(root / "meeting-notes")).err
    shell.says("persona", "create", "Clerk", "--prompt", "Help.", "--skills", "meeting-notes,lost")

    result = shell.run("skill", "list", SKILLS_PATH=str(root))
    rows = [[cell.strip() for cell in re.split(r"  +", line)] for line in result.out.splitlines()[2:]]
    assert sorted(row[:3] for row in rows) == [
        ["broken", str(root), "off"],
        ["in-folder", str(root), "on"],
        ["meeting-notes", str(root), "the row is used"],
        ["meeting-notes", "table", "on"],
    ]
    assert "broken is off: the YAML can't be read" in result.err
    assert "lost: listed by Clerk, but there is no such skill" in result.err
    examined = shell.says("doctor", SKILLS_PATH=str(root))
    assert "broken is off: the YAML can't be read" in examined
    assert "Clerk lists lost, which is missing or off" in examined
    description = shell.says("skill", "show", "meeting-notes")
    assert "personas:    Clerk\nfiles:       form.md\n\nDo meeting-notes." in description
    assert shell.says("skill", "remove", "meeting-notes") == "meeting-notes is removed; still listed by Clerk\n"
    assert "in-folder is a folder: delete" in shell.run("skill", "remove", "in-folder", SKILLS_PATH=str(root)).err
    cell(shell, "DELETE FROM personas WHERE name = 'Clerk'")


def test_what_the_database_refuses_is_one_line(shell: Shell) -> None:
    shell.says("persona", "create", "Twin", "--prompt", "Hello.")

    result = shell.run("persona", "create", "Twin", "--prompt", "Hello.")

    assert result.code == 1
    assert "Key (name)=(Twin) already exists" in result.err
    assert result.err.count("\n") == 1
    assert (
        "the rule is that server needs a platform"
        in shell.run("persona", "create", "X", "--prompt", "Y", "--server", "1").err
    )


def test_the_tools_are_listed_with_what_they_need(shell: Shell) -> None:
    output = shell.says("tools", "knowledge")

    assert "knowledge.remember" in output
    assert "guest" in output
    assert "file_manager" not in output
    assert "there is no module 'kitchen'" in shell.run("tools", "kitchen").err


def test_the_tools_that_are_off_are_listed_with_the_reason(shell: Shell) -> None:
    off, on = shell.says("tools", "research"), shell.says("tools", "research", RESEARCH_BRAVE_API_KEY="key")

    assert "off: research.news_search, research.web_search: no search engine is set: RESEARCH_SEARXNG_URL" in off
    assert "off:" not in on


def test_tools_of_a_module_that_an_admin_has_switched_say_so(shell: Shell) -> None:
    switched = "SELECT admin.set_module('voice', false), admin.set_module('weather', permission => 'owner')"
    shell.says("psql", "-c", switched)
    voice, weather = shell.says("tools", "voice"), shell.says("tools", "weather")
    shell.says("psql", "-c", switched.replace("false", "true").replace("'owner'", "'guest'"))

    assert "modules.is_enabled is false" in voice
    assert "weather.get_weather built in owner on" in " ".join(weather.split())


def test_the_tools_of_mcp_servers_are_listed_beside_those_of_modules(shell: Shell) -> None:
    shell.says(
        "psql",
        "-c",
        """
        INSERT INTO mcp_servers (name, transport, command, last_error)
        VALUES ('clock', 'stdio', 'clock', NULL), ('lost', 'stdio', 'lost', 'gone');
        INSERT INTO mcp_tools (server_id, name, hash, description, approved)
        SELECT id, tool, repeat('a', 64), 'Tell the time.', tool = 'now'
        FROM mcp_servers, unnest(ARRAY['now', 'new']) AS tool WHERE mcp_servers.name = 'clock' OR tool = 'now'
        """,
    )

    output = shell.says("tools")

    lines = {line.split()[0]: " ".join(line.split()) for line in output.splitlines() if line.strip()}
    assert lines["clock.now"].startswith("clock.now MCP (stdio) user on ")
    assert lines["clock.now"].endswith("Tell the time.")
    assert lines["clock.new"].startswith("clock.new MCP (stdio) user off ")
    assert lines["lost.now"].startswith("lost.now MCP (stdio) user off ")
    assert "off: clock.new: mcp_tools.approved is false" in output
    assert "off: lost.now: gone" in output
    assert lines["knowledge.remember"].startswith("knowledge.remember built in guest on ")
    shell.says("psql", "-c", "DELETE FROM mcp_servers")


def test_a_turn_is_explained_from_the_message_to_the_delivery(shell: Shell) -> None:
    call = {"name": "knowledge.remember", "arguments": {"content": "likes tea"}}
    script = [{"content": "One moment.", "tool_calls": [call]}, "I shall remember it."]
    assert shell.run("chat", stdin="I like tea\n", DEBUG_MOCK_RESPONSES=json.dumps(script)).code == 0
    turn = cell(shell, "SELECT max(id) FROM turns")

    output = shell.says("explain", turn)

    assert f"turn          {turn}: answered" in output
    parts = (
        "I like tea",
        "native, waves of tools: 1",
        "knowledge.remember, outcome result",
        "likes tea",
        "mock",
        "terminal",
    )
    # In words, and not as a program writes values.
    words = ("I shall remember it.", "delivered", "held budget: none", "history       ", "summary       none")
    for part in (*parts, *words, "replies to    no other message"):
        assert part in output
    assert not re.search(r"\bNone\b|\b(True|False)\b|first_turn|up_to_turn|is_pruned|\[\]|T\d\d:\d\d:", output)
    assert "the last one is" in shell.run("explain", "999999").err


def test_the_agents_that_a_turn_has_asked_are_part_of_its_story(shell: Shell) -> None:
    cell(shell, "INSERT INTO personas (name, system_prompt) VALUES ('scout', 'You are the scout.')")
    agent = "INSERT INTO agents (name, description, persona_id) SELECT 'scout', 'Looks around.', id"
    cell(shell, f"{agent} FROM personas WHERE name = 'scout'")
    script = [
        '```delegate\n{"agent": "scout", "task": "Find the key."}\n```',
        "Under the mat.",
        "The scout has found it.",
    ]
    # The script goes on where the conversation of the tests before this one has come to.
    said_before = int(cell(shell, "SELECT coalesce(sum(iterations), 0) FROM turns"))
    script = ["Never said."] * said_before + script
    assert shell.run("chat", stdin="where is the key?\n", DEBUG_MOCK_RESPONSES=json.dumps(script)).code == 0
    below = cell(shell, "SELECT max(id) FROM turns")
    asker = cell(shell, "SELECT max(parent_turn_id) FROM turns")

    for part in ("agents.delegate", "scout", "Find the key.", "Under the mat.", "The scout has found it."):
        assert part in shell.says("explain", asker)
    output = shell.says("explain", below)
    assert f"agent         scout, asked in turn {asker} by the call call_{asker}_2" in output
    assert "persona       scout" in output
    assert "delegation" in output
    cell(shell, "DELETE FROM agents")
