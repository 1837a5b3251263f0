"""Permissions that operators give and take, for good or until a day, with the budgets that follow them."""

import json

import pytest

from tests.adapters.cli.shell import Shell, cell


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

    accounts = []
    for way in (by_command, by_function, by_statement):
        account = f"{way.__name__}-{'-'.join(step if isinstance(step, str) else 'day' for step in steps)}"
        accounts.append(account)
        who = f"discord:{account}"
        shell.says("user", "set-budget", who, "50,000", "--new")
        for step in steps:
            if isinstance(step, str):
                way(who, step)
            else:
                shell.says(*(part.format(who=who) for part in step))
    states = cell(shell, " UNION ALL ".join(map(STATE.format, accounts))).splitlines()
    assert states == [f"{state}|f"] * len(accounts), accounts
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
