"""Results of tools as they came, kept for operators beside the journal, which has what the model was shown of them."""

from collections.abc import Sequence

from sqlalchemy import text

from agent.journal.steps import TurnKey
from shared.db.driver import Session

# Another attempt that runs the turn by now writes its own results.
KEEP = text("""
INSERT INTO full_results (turn_id, seq, content)
SELECT turns.id, kept.seq, kept.content
FROM turns, unnest(CAST(:seqs AS integer[]), CAST(:contents AS text[])) AS kept (seq, content)
WHERE turns.id = :turn_id AND turns.attempt = :attempt AND turns.status = 'running'
ON CONFLICT (turn_id, seq) DO UPDATE SET content = excluded.content
""")


async def keep_full_results(session: Session, key: TurnKey, results: Sequence[tuple[int, str]]) -> None:
    """Keep these results (JSON) of a running turn by the positions of their steps; a repeated call replaces them."""
    seqs, contents = [seq for seq, _ in results], [content for _, content in results]
    parameters = {"turn_id": key.id, "attempt": key.attempt, "seqs": seqs, "contents": contents}
    await session.execute(KEEP, parameters)
