"""What `parley setup` asks for Discord."""

import re
from collections.abc import Mapping

TITLE = "Discord"
QUESTIONS: Mapping[str, str] = {"DISCORD_TOKEN": "the bot's token"}
OWNER = "Who is its owner there? Settings, Advanced, Developer Mode; then right-click your name, Copy User ID."
OWNER_ID, EXAMPLE_ID = re.compile(r"\d{15,20}"), "80351110224678912"
INTRODUCTION = (
    "Discord: make an application at https://discord.com/developers/applications\n"
    "On its page Bot switch on Message Content Intent; Reset Token shows the token."
)
