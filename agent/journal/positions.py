"""Positions (`seq`) of steps in a turn: an answer, then its calls, then their results in the order of the calls."""


def call_seq(answer_seq: int, index: int) -> int:
    """Return the position of the call with this index (from 0) of the answer at `answer_seq`."""
    return answer_seq + 1 + index


def result_seq(call_position: int, width: int) -> int:
    """Return the position of the result of a call whose answer has `width` calls."""
    return call_position + width


def to_call_id(turn_id: int, seq: int) -> str:
    """Return the id of the call at this position; it is the same in every attempt."""
    return f"call_{turn_id}_{seq}"
