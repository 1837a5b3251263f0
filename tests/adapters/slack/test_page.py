"""docs/slack.md: each way is ten steps, and the scopes that it names are right."""

import re
from dataclasses import fields

from adapters.slack.install.manifest import build_manifest
from adapters.slack.settings import SlackSettings
from shared.settings import Settings
from tests.support.documents import document

PAGE = document("docs/slack.md")


def test_each_way_to_an_answering_app_has_ten_steps() -> None:
    ways = [part for part in PAGE.text.split("\n## ") if part.startswith("From nothing")]

    assert [re.findall(r"^(\d+)\. ", way, re.MULTILINE) for way in ways] == [[str(n) for n in range(1, 11)]] * 2


def test_the_settings_and_the_entries_that_the_page_names_exist() -> None:
    names = set(re.findall(r"`(SLACK_[A-Z_]+|PUBLIC_URL|CATCH_UP_HOURS|SECRET_KEY)\b", PAGE.text))
    features = build_manifest(SlackSettings(), None)["features"]

    assert {name.lower() for name in names} <= set(Settings.model_fields) | {
        f"slack_{field.name}" for field in fields(SlackSettings)
    }
    assert features["slash_commands"][0]["command"] in PAGE.text
    assert f"**{features['shortcuts'][0]['name']}**" in PAGE.text
