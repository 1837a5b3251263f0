"""What operators type: people, personas, SQL, a turn's story, a look at everything, a copy."""

import getpass
import json
import re
from pathlib import Path

import pytest

from adapters.slack.install.vault import Vault
from tests.adapters.cli.shell import Shell


def cell(shell: Shell, query: str, *options: str) -> str:
    return shell.says("psql", *options, "-At", "-c", query).strip()


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


def test_a_former_admin_has_a_limit_again(shell: Shell) -> None:
    shell.says("user", "promote", "discord:81", "admin", "--new")

    assert shell.says("user", "promote", "discord:81", "guest").endswith("guest, 50,000 tokens in 30 days\n")


FOR_A_DAY = ("grant", "add", "{who}", "admin", "--until", "2096-01-31")
UPDATE = "UPDATE users SET {} WHERE id = (SELECT user_id FROM user_platform_links WHERE platform_user_id = '{{id}}')"
STATE = """
SELECT permission_level, permission_until, permission_after, token_budget_monthly, paused_at, is_memory_paused
FROM users JOIN user_platform_links ON user_id = users.id WHERE platform_user_id = '{}'
"""


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        ([FOR_A_DAY, "admin"], "admin||||"),
        (["admin", "guest"], "guest|||50000|"),
        ([FOR_A_DAY, "guest"], "guest|||50000|"),
        (["admin", "1000", "admin"], "admin||||"),
        (["1000", FOR_A_DAY, "user"], "user|||1000|"),
        (["admin", FOR_A_DAY, "unlimited", "user"], "user|||50000|"),
    ],
)
def test_whoever_changes_a_permission_the_same_comes_of_it(
    shell: Shell, steps: list[str | tuple[str, ...]], state: str
) -> None:
    def by_command(who: str, step: str) -> None:
        is_budget = step.isdecimal() or step == "unlimited"
        shell.says("user", "set-budget" if is_budget else "promote", who, step)

    def by_function(who: str, step: str) -> None:
        is_budget = step.isdecimal() or step == "unlimited"
        value = "NULL" if step == "unlimited" else step if is_budget else f"'{step}'"
        function = "set_budget" if is_budget else "grant_permission"
        cell(shell, f"SELECT admin.{function}('discord', '{who.partition(':')[2]}', {value})")

    def by_statement(who: str, step: str) -> None:
        value = "NULL" if step == "unlimited" else step if step.isdecimal() else f"'{step}'"
        column = "permission_level" if value[0] == "'" else "token_budget_monthly"
        cell(shell, UPDATE.format(f"{column} = {value}").format(id=who.partition(":")[2]))

    for way in (by_command, by_function, by_statement):
        account = f"{way.__name__}-{'-'.join(step if isinstance(step, str) else 'day' for step in steps)}"
        who = f"discord:{account}"
        shell.says("user", "set-budget", who, "50,000", "--new")
        for step in steps:
            if isinstance(step, str):
                way(who, step)
            else:
                shell.says(*(part.format(who=who) for part in step))
        assert cell(shell, STATE.format(account)) == f"{state}|f", way.__name__
        assert json.loads(shell.says("user", "show", who, "--json"))["permission_level"] == state.partition("|")[0]


def test_a_grant_until_the_same_day_still_ends_and_an_ended_one_is_shown_as_what_is_left(shell: Shell) -> None:
    shell.says("grant", "add", "discord:84", "user", "--until", "2096-01-31", "--new")
    shell.says("grant", "add", "discord:84", "admin", "--until", "2096-01-31")
    assert cell(shell, STATE.format("84")).startswith("admin|2096-01-31 00:00:00+00|guest|50000|")

    cell(shell, UPDATE.format("permission_until = now() - interval '1 second'").format(id="84"))

    assert "permission  guest" in shell.says("user", "show", "discord:84")
    assert cell(shell, "SELECT parley_end_grants()") == "1"


def test_a_persona_that_has_answered_is_deleted_by_whoever_says_yes(shell: Shell) -> None:
    shell.says("persona", "create", "Old", "--prompt", "Hello.", "--default")
    assert "fine" in shell.run("chat", stdin="hello\n", DEBUG_MOCK_RESPONSES='["fine"]').out
    assert "has answered in 1 turns" in shell.run("persona", "delete", "Old").err

    assert shell.says("persona", "delete", "Old", "--yes") == "Old is deleted\n"


def test_a_limit_of_an_admin_outlives_a_grant_on_top(shell: Shell) -> None:
    shell.says("user", "promote", "discord:85", "admin", "--new")
    shell.says("user", "set-budget", "discord:85", "1000")
    shell.says("grant", "add", "discord:85", "owner", "--until", "2096-01-31")
    cell(shell, UPDATE.format("permission_until = now() - interval '1 second'").format(id="85"))

    cell(shell, "SELECT parley_end_grants()")

    assert cell(shell, STATE.format("85")).startswith("admin|||1000|")


def test_a_limit_that_an_admin_chose_stays_with_the_permission_user(shell: Shell) -> None:
    shell.says("user", "set-budget", "discord:82", "70,000", "--new")

    assert shell.says("user", "promote", "discord:82", "user").endswith("user, 70,000 tokens in 30 days\n")
    shell.says("user", "set-budget", "discord:82", "unlimited")
    assert "0 of unlimited" in shell.says("user", "show", "discord:82")


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
        ("s/iterations: 3/iterations: 300/", "max_iterations_is_1_to_100"),
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
    assert any("installation" in line and "7.5" in line for line in shell.says("budget", "list").splitlines())
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
    assert "server_needs_a_platform" in shell.run("persona", "create", "X", "--prompt", "Y", "--server", "1").err


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


def test_a_person_is_exported_and_erased_with_a_receipt(shell: Shell) -> None:
    shell.says("user", "promote", "web:zoe", "user", "--new")
    person = cell(shell, "SELECT user_id FROM user_platform_links WHERE platform_user_id = 'zoe'")

    assert json.loads(shell.says("user", "export", "web:zoe"))["accounts"][0]["platform_user_id"] == "zoe"
    assert "Add --yes" in shell.run("user", "erase", "web:zoe").err
    receipt = shell.says("user", "erase", "web:zoe", "--yes").strip()
    assert '"accounts": 1' in shell.says("verify-receipt", receipt)
    assert shell.says("user", "erase", person).strip() == receipt
    assert shell.run("verify-receipt", receipt.replace("accounts", "Accounts")).code == 1
    assert cell(shell, "SELECT count(*) FROM user_platform_links WHERE platform_user_id = 'zoe'") == "0"


@pytest.mark.parametrize(("query", "code"), [("SELECT 1", 0), ("SELEKT", 1)])
def test_psql_s_exit_code_is_passed_on(shell: Shell, query: str, code: int) -> None:
    assert shell.run("psql", "-c", query).code == code


def test_a_dump_brings_back_what_was_there(shell: Shell) -> None:
    shell.says("user", "set-budget", "discord:90", "1234", "--new")
    assert "copy.dump" in shell.says("dump", "copy.dump")
    shell.says("user", "set-budget", "discord:90", "1")

    assert shell.run("restore", "copy.dump").code == 2
    assert "0 of 1" in shell.says("user", "show", "discord:90")
    assert shell.says("restore", "copy.dump", "--yes") == "restored\n"

    assert "0 of 1,234" in shell.says("user", "show", "discord:90")
    assert shell.run("chat", stdin="/me\n").code == 0


def test_a_damaged_dump_changes_nothing(shell: Shell) -> None:
    shell.says("user", "set-budget", "discord:91", "1234", "--new")
    (shell.folder / "bad.dump").write_bytes(b"PGDMP nonsense")

    assert shell.run("restore", "bad.dump", "--yes").code == 1
    assert "0 of 1,234" in shell.says("user", "show", "discord:91")


def test_tables_that_are_there_are_left_alone(shell: Shell) -> None:
    assert shell.says("migrate").endswith("nothing to change\n")


def test_a_backup_is_verified_and_brings_everything_back_in_a_new_folder(shell: Shell) -> None:
    shell.says("user", "set-budget", "discord:92", "4321", "--new")
    # The open psql of the fixture.
    assert "Others use the database: psql (role parley_admin, from this machine" in shell.run("backup", "all.zip").err

    assert "entries in the audit log; it holds secrets" in shell.says("backup", "all.zip", "--live")
    assert "all.zip is whole, and could be restored: " in shell.says("backup", "verify", "all.zip")
    result = shell.run("restore", "all.zip")
    assert (result.code, "holds postgres and" in result.err) == (2, True)
    whole = (shell.folder / "all.zip").read_bytes()
    (shell.folder / "cut.zip").write_bytes(whole[:-100])
    new = str(shell.folder / "new")
    cut = shell.run("restore", "cut.zip", PARLEY_HOME=new)
    assert (cut.code, "cut.zip is cut off" in cut.err, Path(new).exists()) == (1, True, False)

    assert "restored the backup of " in shell.says("restore", "all.zip", PARLEY_HOME=new)

    assert "0 of 4,321" in shell.says("user", "show", "discord:92", PARLEY_HOME=new)
    for name in ("api_token", "secret_key"):
        assert (Path(new) / name).read_text() == (shell.home / name).read_text()
        assert (Path(new) / name).stat().st_mode & 0o777 == 0o600
