"""What has happened in the installation that the pictures show: a reading club with a boat."""

from tests.adapters.web.admin.conftest import make_person
from tests.adapters.web.conftest import Site
from tests.standins.openai_api import Answer

SERVER, CHANNEL = "81384788765712384", "381870553235193857"
BEN, MIRA = "80351110224678912", "80351110224678913"
CHATS = ("Draft the invitation for Saturday", "Which books did we vote for?", "Trains back from Lisbon")
QUESTION = "Three boats at 84 € for 14 of us. What does each pay? And remember that I steer the Otter."
CALLS = (
    ("calculator__calculate", {"expression": "3 * 84 / 14"}),
    ("knowledge__remember", {"content": "Ann steers the Otter."}),
)
TABLE = """Each pays **18 €**. The boats as I would fill them:

| Boat | Seats | Who steers | To pay |
|:-----|------:|:-----------|-------:|
| Otter | 5 | Ann | 90 € |
| Swan | 5 | Ben | 90 € |
| Duck | 4 | Mira | 72 € |

That makes 252 €, and I have noted that you steer the Otter."""
SHORT_QUESTION = "Three boats at 84 € for 14 of us: what does each pay?"
SHORT_TABLE = TABLE.partition(", and I have noted")[0] + "."
PERSONA = """
SELECT admin.create_persona('Librarian', 'You are the librarian of the Night Owls reading club. Be brief.',
                            platform => 'discord', server => :server)
"""
NAMES = """
INSERT INTO servers (platform, platform_server_id, name) VALUES ('discord', :server, 'Night Owls')
ON CONFLICT (platform, platform_server_id) DO UPDATE SET name = EXCLUDED.name
"""
LIMITS = (
    "SELECT admin.set_limit('installation', dollars => 20)",
    "SELECT admin.set_limit('server', tokens => 900000, platform => 'discord', server => :server)",
    "SELECT admin.set_budget('discord', :ben, 400000)",
    """UPDATE budgets SET tokens_used = coalesce(token_limit * 0.62, 0), cost_used = coalesce(cost_limit * 0.38, 0),
       resets_at = date_trunc('month', now(), 'UTC') + interval '1 month'""",
)
LEDGER = """
INSERT INTO token_logs (user_id, turn_id, purpose, model, input_tokens, output_tokens, cost_estimate, created_at)
SELECT turns.user_id, turns.id, CASE WHEN n % 4 = 0 THEN 'summary' ELSE 'answer' END,
       CASE WHEN n % 3 = 0 THEN 'openai/gpt-4.1-mini' ELSE 'openai/gpt-4.1' END,
       9000 + (n * 37 % 11) * 2600, 700 + n * 13 % 900, 0.012 * (1 + n * 5 % 7), now() - n * interval '11 hours'
FROM generate_series(1, 62) AS n JOIN turns ON turns.id = 1 + n % 3
"""


async def write_past(site: Site) -> int:
    """Let people write and spend; return the turn that the timeline shows."""
    parley = site.parley
    await make_person(site, "ann", "owner")
    await parley.sql(PERSONA, server=SERVER)
    there = {"platform": "discord", "server": SERVER, "channel": CHANNEL}
    parley.model.play([Answer("“The Waves” leads with six votes."), Answer("On Thursday, at eight.")])
    await parley.ask("Which book leads?", user=MIRA, username="Mira", **there)
    await parley.ask("And when do we meet?", user=MIRA, username="Mira", **there)
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")
    await parley.sql("SELECT admin.grant_permission('discord', :mira, 'user')", mira=MIRA)
    parley.model.play([Answer("It begins at six.")])
    await parley.ask("When does the boat leave?", platform="web", user="ann", username="Ann")
    parley.model.play([Answer(tool_calls=CALLS), Answer(TABLE)])
    answer = await parley.ask(QUESTION, user=BEN, username="Ben", **there)
    await parley.sql(NAMES, server=SERVER)
    for statement in LIMITS:
        values = {"server": SERVER, "ben": BEN}
        await parley.sql(statement, **{name: value for name, value in values.items() if f":{name}" in statement})
    await parley.sql(LEDGER)
    return answer.turn_id
