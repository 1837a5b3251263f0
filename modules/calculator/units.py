"""Converts between units, in decimal numbers."""

import re
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

from shared.arithmetic import NoSum, work_out

CONVERSION = re.compile(
    r"(?P<amount>[\d\s.,()+\-*/%^]+?)\s*(?P<unit>[^\W\d_°]|°)(?P<rest>.*?)\s+(?:in|into|to|as)\s+(?P<wanted>\S.*)"
)
SPELLINGS = (
    (re.compile(r"°\s?"), "deg"),
    (re.compile(r"\bin\b|\binches\b"), "inch"),
    (re.compile(r"\s+per\s+"), "/"),
    (re.compile(r"\bsquare\s+(\w+)"), r"\1**2"),
    (re.compile(r"\bcubic\s+(\w+)"), r"\1**3"),
    (re.compile(r"(?:\^|(?<=[a-z]))(?=[23]\b)"), "**"),
    (re.compile(r"\bfluid (?=ounces?\b)"), "fluid_"),
    (re.compile(r"\s*([*/])\s*"), r"\1"),
)
# Powers of large numbers would be computed: a unit has no numbers but these.
NAME = r"[^\W\d_]\w*(?:\*\*[23])?"
UNIT = re.compile(rf"{NAME}(?:[*/]{NAME}){{0,3}}", re.ASCII)
MAX_CHARS = 200
SHOWN_DIGITS = 15


def convert(expression: str) -> str | None:
    """Return the amount in the unit that is asked for; None when the text asks for no conversion.

    Raises `NoSum` for units that are not known or don't fit each other.
    """
    match = CONVERSION.fullmatch(expression.strip().rstrip("?= ")) if len(expression) <= MAX_CHARS else None
    if match is None:
        return None
    import pint

    units, target = _units(), match["wanted"].strip()
    amount = Decimal(work_out(match["amount"]))
    try:
        quantity = units.Quantity(amount, _to_unit(units, match["unit"] + match["rest"])).to(_to_unit(units, target))
    except (pint.PintError, ArithmeticError) as error:
        raise NoSum(str(error)[:200].rstrip(".")) from None
    plain = Context(SHOWN_DIGITS).plus(Decimal(quantity.magnitude)).normalize(Context(SHOWN_DIGITS))
    return f"{plain:f} {target}" if -SHOWN_DIGITS < plain.adjusted() <= SHOWN_DIGITS else f"{plain:e} {target}"


@lru_cache(maxsize=1)
def _units() -> Any:
    import pint

    return pint.UnitRegistry(non_int_type=Decimal)


def _to_unit(units: Any, text: str) -> Any:
    spelled = text.strip()
    for pattern, plain in SPELLINGS:
        spelled = pattern.sub(plain, spelled)
    if not UNIT.fullmatch(spelled):
        raise NoSum(f"{text.strip()[:40]} is no unit that is known")
    # As it is written first: MB and mb are not the same.
    spellings = (
        spelling
        for spelling in (spelled, spelled.lower())
        if all(name in units for name in re.findall(r"[a-zA-Z_]\w*", spelling))
    )
    name = next(spellings, None)
    if name is None:
        raise NoSum(f"{text.strip()[:40]} is no unit that is known")
    return units.Unit(name)
