"""Where the steps of a turn stand: an answer, its calls behind it, then their results, whatever finishes first."""


def call_seq(answer_seq: int, index: int) -> int:
    """Return the position of an answer's call, counted from 0."""
    return answer_seq + 1 + index


def result_seq(call_position: int, width: int) -> int:
    """Return the position of the result of a call whose answer makes so many calls."""
    return call_position + width


def to_call_id(turn_id: int, seq: int) -> str:
    """Return the id of the call that stands at this position, the same in every attempt."""
    return f"call_{turn_id}_{seq}"
