"""Permissions that operators give and take, for good or until a day, with the budgets that follow them."""

import json

from tests.adapters.cli.shell import Shell, cell


def test_a_former_admin_has_a_limit_again(shell: Shell) -> None:
    shell.says("user", "promote", "discord:81", "admin", "--new")

    assert shell.says("user", "promote", "discord:81", "guest").endswith("guest, 50,000 tokens in 30 days\n")


# The permission admin, until a day.
FOR_A_DAY = "until"
UPDATE = "UPDATE users SET {} WHERE id = (SELECT user_id FROM user_platform_links WHERE platform_user_id = '{{id}}')"
STATE = """
SELECT permission_level, permission_until, permission_after, token_budget_monthly, paused_at, is_memory_paused
FROM users JOIN user_platform_links ON user_id = users.id WHERE platform_user_id = '{}'
"""


STORIES = {
    (FOR_A_DAY, "admin"): "admin||||",
    ("admin", "guest"): "guest|||50000|",
    (FOR_A_DAY, "guest"): "guest|||50000|",
    ("admin", "1000", "admin"): "admin||||",
    ("1000", FOR_A_DAY, "user"): "user|||1000|",
    ("admin", FOR_A_DAY, "unlimited", "user"): "user|||50000|",
}
ADD = """
WITH person AS (INSERT INTO users (token_budget_monthly) VALUES (50000) RETURNING id)
INSERT INTO user_platform_links (user_id, platform, platform_user_id) SELECT id, 'discord', '{}' FROM person
"""


def to_arguments(account: str, step: str) -> tuple[str, ...]:
    """Return the command of a step."""
    if step == FOR_A_DAY:
        return ("grant", "add", account, "admin", "--until", "2096-01-31")
    return ("user", "set-budget" if step.isdecimal() or step == "unlimited" else "promote", account, step)


def to_call(account: str, step: str) -> str:
    """Return the call of an admin's function that does the same."""
    if step == FOR_A_DAY:
        return f"SELECT admin.grant_permission('discord', '{account}', 'admin', '2096-01-31Z')"
    if step.isdecimal() or step == "unlimited":
        return f"SELECT admin.set_budget('discord', '{account}', {step if step.isdecimal() else 'NULL'})"
    return f"SELECT admin.grant_permission('discord', '{account}', '{step}')"


def to_update(account: str, step: str) -> str:
    """Return the statement that does the same; for an end there is none but the function."""
    if step == FOR_A_DAY:
        return to_call(account, step)
    value = "NULL" if step == "unlimited" else step if step.isdecimal() else f"'{step}'"
    column = "permission_level" if value[0] == "'" else "token_budget_monthly"
    return UPDATE.format(f"{column} = {value}").format(id=account)


def test_whoever_changes_a_permission_the_same_comes_of_it(shell: Shell) -> None:
    states: dict[str, str] = {}
    statements: list[str] = []
    for number, (steps, state) in enumerate(STORIES.items()):
        shell.says("user", "set-budget", f"discord:command-{number}", "50,000", "--new")
        for step in steps:
            shell.says(*to_arguments(f"discord:command-{number}", step))
        for way, to_statement in (("function", to_call), ("statement", to_update)):
            account = f"{way}-{number}"
            statements += [ADD.format(account), *(to_statement(account, step) for step in steps)]
        states |= {f"{way}-{number}": f"{state}|f" for way in ("command", "function", "statement")}
    # Each in a transaction of its own.
    shell.says("psql", "-q", *(part for statement in statements for part in ("-c", statement)))

    results = cell(shell, " UNION ALL ".join(map(STATE.format, states))).splitlines()
    assert dict(zip(states, results, strict=True)) == states
    show = json.loads(shell.says("user", "show", "discord:function-5", "--json"))
    assert show["permission_level"] == "user"


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
