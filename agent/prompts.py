"""Every text for people and models: the fields below are the keys of `prompts/<section>.yaml`, checked at the start."""

from functools import cache
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, ValidationError, convert

from shared.errors import ConfigurationError

FOLDER = Path(__file__).parent / "prompts"

Text = Annotated[str, Meta(min_length=1)]


class BudgetTexts(Struct, frozen=True, forbid_unknown_fields=True):
    """What people are told about limits, and about requests for more."""

    asked_for: Text
    notice: Text
    own: Text
    of: Text
    not_needed: Text
    set_by_yourself: Text
    asked: Text
    asked_nobody: Text
    request: Text
    granted: Text
    refused: Text
    refused_lately: Text
    unknown_request: Text
    no_requests: Text
    listed: Text


class CardTexts(Struct, frozen=True, forbid_unknown_fields=True):
    """What other agents read on our card."""

    description: Text
    skill: Text


class ConfirmationTexts(Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked before a call runs, and what becomes of the answer."""

    taint: Text
    taint_reason: Text
    several: Text
    hint: Text
    hint_approver: Text
    again: Text
    asked: Text
    asked_by_child: Text
    denied: Text
    withdrawn: Text
    nobody_to_ask: Text
    too_long: Text
    done: Text
    failed: Text
    not_done: Text


class DelegationTexts(Struct, frozen=True, forbid_unknown_fields=True):
    """What agents and those who ask them are told."""

    tool: Text
    instructions: Text
    unknown: Text
    cycle: Text
    too_deep: Text
    not_here: Text
    no_task: Text
    long_task: Text
    switched_off: Text
    wrong_script: Text
    ended: Text
    unknown_outcome: Text
    failed: Text
    file_kept: Text
    file_lost: Text


class PersonaTexts(Struct, frozen=True, forbid_unknown_fields=True):
    """The built-in persona."""

    system: Text


class PlannerTexts(Struct, frozen=True, forbid_unknown_fields=True):
    """How a model is asked for plans."""

    form: Text
    rules: Text
    no_tools: Text
    broken: Text
    cut: Text
    no_answer_left: Text
    last_answer: Text
    needs_failed: Text
    no_steps_left: Text


class ProtocolTexts(Struct, frozen=True, forbid_unknown_fields=True):
    """How a model without tool calling is told to call tools."""

    tool_tag: Text
    fenced: Text
    rules: Text
    delegate: Text
    list_heading: Text
    results_heading: Text
    garbled: Text


class SkillTexts(Struct, frozen=True, forbid_unknown_fields=True):
    """What a model is told about skills."""

    heading: Text


class ScheduleTexts(Struct, frozen=True, forbid_unknown_fields=True):
    """What due jobs say to people and to models."""

    notice: Text
    notice_for: Text
    reminded: Text
    due: Text
    of_others: Text
    late: Text
    came_true: Text
    expired: Text


class SummaryTexts(Struct, frozen=True, forbid_unknown_fields=True):
    """How a model is asked for the summary of a conversation and for facts, for facts alone, or for a title."""

    instructions: Text
    facts: Text
    only_facts: Text
    title: Text
    notes: Text
    no_notes: Text
    known: Text
    transcript: Text
    rejected: Text


class TurnTexts(Struct, frozen=True, forbid_unknown_fields=True):
    """What people and models are told in the course of a turn."""

    last_answer: Text
    limit_reached: Text
    cut_note: Text
    ended_in_mid_turn: Text
    model_failures: Text
    steps_left: Text
    too_many_calls: Text
    no_text: Text
    secret_removed: Text
    secret_result: Text
    credential_typed: Text
    repeated_call: Text
    left_out: Text
    unknown_outcome: Text
    parked: Text
    erased: Text
    lost: Text
    late: Text
    fault: Text
    empty: Text
    summary_heading: Text
    program_heading: Text
    memories_heading: Text
    replied_to: Text
    earlier_heading: Text
    image_unseen: Text
    image_unopened: Text
    file_missing: Text
    files_missing: Text
    files_missing_notice: Text
    files_unopened_notice: Text
    files_hint: Text


class VoiceTexts(Struct, frozen=True, forbid_unknown_fields=True):
    """What models and people are told about recordings; `recording` and `spoken` begin the headings of transcripts."""

    recording: Text
    spoken: Text
    not_configured: Text
    too_large: Text
    too_long: Text
    no_length: Text
    nothing_said: Text
    unheard: Text
    unheard_notice: Text


class Prompts(Struct, frozen=True, forbid_unknown_fields=True):
    """All texts, by section."""

    a2a: CardTexts
    budgets: BudgetTexts
    confirmation: ConfirmationTexts
    delegation: DelegationTexts
    persona: PersonaTexts
    planner: PlannerTexts
    protocols: ProtocolTexts
    skills: SkillTexts
    schedules: ScheduleTexts
    summary: SummaryTexts
    turn: TurnTexts
    voice: VoiceTexts


@cache
def prompts() -> Prompts:
    """Return the texts that Parley comes with."""
    return load_prompts(FOLDER)


def load_prompts(folder: Path) -> Prompts:
    """Return the texts of a folder; raises `ConfigurationError` that names a key that is missing, unknown or empty."""
    # Imported here for the same reason.
    import yaml

    # In C: the one in Python takes as long as all modules together.
    sections = {
        path.stem: yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)  # a safe one
        for path in sorted(folder.glob("*.yaml"))
    }
    try:
        return convert(sections, Prompts)
    except ValidationError as error:
        raise ConfigurationError(f"The texts in {folder} are wrong: {error}. Correct the file.") from None
