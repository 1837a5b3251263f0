"""Results of tools as they came, kept for operators beside the journal, which has what the model was shown of them."""

from collections.abc import Sequence

from agent.journal.steps import TurnKey
from shared.db.driver import Session
from shared.db.statements import load_statements

statements = load_statements(__file__)


async def keep_full_results(session: Session, key: TurnKey, results: Sequence[tuple[int, str]]) -> None:
    """Keep these results (JSON) of a running turn by the positions of their steps; a repeated call replaces them."""
    seqs, contents = [seq for seq, _ in results], [content for _, content in results]
    parameters = {"turn_id": key.id, "attempt": key.attempt, "seqs": seqs, "contents": contents}
    await session.execute(statements.store_full_results, parameters)
