"""Stories of the contract once more, while every platform is slow, refuses requests for their number and breaks off."""

import pytest

from tests.adapters.contract.driver import PlatformDriver
from tests.adapters.contract.test_contract import (
    test_a_file_of_the_answer_goes_out,
    test_a_long_answer_arrives_whole_and_in_order_with_balanced_fences,
    test_a_question_is_answered_once_and_belongs_to_it,
    test_a_yes_is_a_click_of_who_was_asked_whatever_was_said_since,
)
from tests.adapters.contract.test_contract_faults import (
    test_what_was_missed_while_nobody_listened_is_answered_in_order,
)

__all__ = [
    "test_a_file_of_the_answer_goes_out",
    "test_a_long_answer_arrives_whole_and_in_order_with_balanced_fences",
    "test_a_question_is_answered_once_and_belongs_to_it",
    "test_a_yes_is_a_click_of_who_was_asked_whatever_was_said_since",
    "test_what_was_missed_while_nobody_listened_is_answered_in_order",
]


@pytest.fixture(name="driver")
async def strained(driver: PlatformDriver) -> PlatformDriver:
    """The platform under strain from the first request on."""
    driver.strain()
    return driver
