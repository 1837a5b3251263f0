"""Arithmetic as people write it in a chat, evaluated in decimal numbers without executing code."""

import math
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal, DecimalException, Inexact

from msgspec import Struct

TIMES, DIVIDED = "\N{MULTIPLICATION SIGN}\N{MIDDLE DOT}\N{ASTERISK OPERATOR}", "\N{DIVISION SIGN}:"
SUM = re.compile(rf"[\d\s.,()+\-*/%^{TIMES}{DIVIDED}]+")
SPELLING = str.maketrans(
    dict.fromkeys(TIMES, "*")
    | dict.fromkeys(DIVIDED, "/")
    | dict.fromkeys("\N{MINUS SIGN}\N{EN DASH}", "-")
    | dict.fromkeys("$\N{EURO SIGN}\N{POUND SIGN}_", "")
    | {"\N{GREEK SMALL LETTER PI}": "pi"}
)
TOKEN = re.compile(r"\s*(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[a-z]\w*|\*\*|//|[-+*/%^!(),])")
MAX_CHARS = 500
MAX_NESTING = 50
MAX_EXPONENT = 1000
MAX_BITS = 4096
MAX_FACTORIAL = 200
DIGITS, SHOWN_DIGITS = 50, 15

Number = int | Decimal
BINDING = {"+": 10, "-": 10, "*": 20, "/": 20, "//": 20, "%": 20, "mod": 20, "of": 20, "^": 40, "**": 40}
NEGATION = 30
CONSTANTS = {
    "pi": Decimal("3.14159265358979323846264338327950288419716939937511"),
    "e": Decimal(1).exp(Context(DIGITS)),
}
SIGNS = {"+": 1, "-": -1}
SUFFIXES, OPENING = ("%", "!"), ("(",)


class NoSum(Exception):
    """The text is not an expression, or has no result; the message says why."""


def find_sum(text: str) -> str | None:
    """Return the text as an expression when it is one: digits, operators, brackets, at least one operation."""
    expression = text.strip().rstrip("=?!. ").lower().replace(" x ", " * ")
    if not SUM.fullmatch(expression) or not re.search(r"\d", expression):
        return None
    plain = _with_points(expression).translate(SPELLING).replace("^", "**")
    return plain if re.search(r"[\d)]\s*[-+*/%]", plain) else None


def work_out(expression: str) -> str:
    """Return the result of the expression as people write it; raises `NoSum`."""
    if len(expression) > MAX_CHARS:
        raise NoSum(f"it is longer than {MAX_CHARS} characters")
    text = expression.strip().rstrip("=? ").lower().translate(SPELLING)
    if not any(f"{name}(" in text.replace(" ", "") for name in FUNCTIONS):
        text = _with_points(text)
    tokens: list[str] = []
    end = 0
    while end < len(text.rstrip()):
        match = TOKEN.match(text, end)
        if match is None:
            raise NoSum(f"{text[end:].strip()[:20]!r} is not understood")
        tokens.append(match[0].strip())
        end = match.end()
    context = Context(prec=DIGITS, Emax=10_000, Emin=-10_000)
    try:
        result = _Sum(tokens, context).result()
    except ZeroDivisionError:
        raise NoSum("it divides by zero") from None
    except (DecimalException, ArithmeticError, ValueError):
        raise NoSum("it has no result, or one that is too large") from None
    result = _bounded(result)
    if isinstance(result, int):
        return str(result)
    if context.flags[Inexact]:
        result = Context(SHOWN_DIGITS).plus(result)
    if not result:
        return "0"
    plain = result.normalize(Context(DIGITS))
    return f"{plain:f}" if -SHOWN_DIGITS < plain.adjusted() <= DIGITS else f"{plain:e}"


def _with_points(text: str) -> str:
    # A comma between digits is a decimal point, as much of the world writes it, unless three digits follow.
    return re.sub(r"(?<=\d)[, ](?=\d{3}(?!\d))", "", text).replace(",", ".")


class _Sum(Struct):
    """A precedence-climbing parser that evaluates as it reads; `BINDING` has the precedence of each operator."""

    tokens: Sequence[str]
    context: Context
    position: int = 0
    nesting: int = 0

    def result(self) -> Number:
        """Return the value of the whole; raises `NoSum` when something is left over."""
        value, _ = self._expression(0)
        if self._next:
            raise NoSum(f"{self._next!r} is out of place")
        return value

    @property
    def _next(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def _advance(self, symbol: str = "") -> str:
        token = self._next
        if not token or (symbol and token != symbol):
            raise NoSum(f"{symbol or 'something'} is missing at the end" if not token else f"{token!r} is out of place")
        self.position += 1
        return token

    def _expression(self, binding: int) -> tuple[Number, bool]:
        """Return the value of what binds more tightly, and whether it is a bare percentage."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise NoSum("it is nested too deep")
        value, is_percentage = self._operand()
        while (precedence := BINDING.get(self._next, 0)) > binding:
            sign = self._advance()
            # Powers are right-associative.
            second, second_is_percentage = self._expression(precedence - (precedence == BINDING["^"]))
            if second_is_percentage and not is_percentage and sign in {"+", "-"}:
                # 200 + 10 % means 220, as for a price with tax.
                second = self._multiply(value, second)
            value, is_percentage = _bounded(self._apply(sign, value, second)), False
        self.nesting -= 1
        return value, is_percentage

    def _operand(self) -> tuple[Number, bool]:
        token = self._advance()
        if token in SIGNS:
            value, is_percentage = self._expression(NEGATION)
            return (self._multiply(value, SIGNS[token]), is_percentage)
        if token in OPENING:
            value, _ = self._expression(0)
            self._advance(")")
        elif token.isdecimal():
            value = _bounded(int(token))
        elif token[0].isdigit() or token[0] == ".":
            value = Decimal(token)
            if abs(value.adjusted()) > MAX_EXPONENT:
                raise NoSum(f"exponents go up to {MAX_EXPONENT}")
        else:
            value = self._named(token)
        is_percentage = False
        while self._next in SUFFIXES:
            after = self.tokens[self.position + 1] if self.position + 1 < len(self.tokens) else ""
            if self._next == "%" and after and after not in BINDING and after not in {")", ",", *SUFFIXES}:
                # 7 % 3 is a remainder.
                break
            is_percentage = self._advance() == "%"
            value = self._divide(value, 100) if is_percentage else _factorial(value)
        return value, is_percentage

    def _named(self, name: str) -> Number:
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name not in FUNCTIONS:
            raise NoSum(f"{name!r} is not known; known are {', '.join([*FUNCTIONS, *CONSTANTS])}")
        self._advance("(")
        arguments = [self._expression(0)[0]]
        while self._next == ",":
            self._advance()
            arguments.append(self._expression(0)[0])
        self._advance(")")
        try:
            return _bounded(FUNCTIONS[name](self.context, *arguments))
        except TypeError:
            raise NoSum(f"{name} takes another number of values") from None

    def _apply(self, sign: str, first: Number, second: Number) -> Number:
        match sign:
            case "+":
                return first + second if _are_whole(first, second) else self.context.add(_exact(first), _exact(second))
            case "-":
                return (
                    first - second
                    if _are_whole(first, second)
                    else self.context.subtract(_exact(first), _exact(second))
                )
            case "*" | "of":
                return self._multiply(first, second)
            case "/":
                return self._divide(first, second)
            case "//":
                return self._floor_divide(first, second)
            case "%" | "mod":
                return self._apply("-", first, self._multiply(second, self._floor_divide(first, second)))
        if not -MAX_EXPONENT <= second <= MAX_EXPONENT:
            raise NoSum(f"exponents go up to {MAX_EXPONENT}")
        if isinstance(first, int) and isinstance(second, int) and second >= 0:
            if first.bit_length() * second > MAX_BITS:
                raise NoSum("the result is too large")
            power: int = first**second
            return power
        return self.context.power(_exact(first), _exact(second))

    def _multiply(self, first: Number, second: Number) -> Number:
        return first * second if _are_whole(first, second) else self.context.multiply(_exact(first), _exact(second))

    def _divide(self, first: Number, second: Number) -> Number:
        if isinstance(first, int) and isinstance(second, int) and first % second == 0:
            return first // second
        return self.context.divide(_exact(first), _exact(second))

    def _floor_divide(self, first: Number, second: Number) -> Number:
        if isinstance(first, int) and isinstance(second, int):
            return first // second
        return int(self.context.divide(_exact(first), _exact(second)).to_integral_value(ROUND_FLOOR))


def _are_whole(first: Number, second: Number) -> bool:
    return isinstance(first, int) and isinstance(second, int)


def _exact(number: Number) -> Decimal:
    return Decimal(number)


def _bounded(number: Number) -> Number:
    if number.bit_length() > MAX_BITS if isinstance(number, int) else not number.is_finite():
        raise NoSum("the result is too large")
    return number


def _factorial(number: Number) -> int:
    if not isinstance(number, int) or not 0 <= number <= MAX_FACTORIAL:
        raise NoSum(f"factorials are of whole numbers up to {MAX_FACTORIAL}")
    return math.factorial(number)


def _round(_context: Context, number: Number, digits: Number = 0) -> Number:
    places = max(-MAX_EXPONENT, min(MAX_EXPONENT, int(digits)))
    rounded = _exact(number).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, Context(MAX_EXPONENT * 3))
    return int(rounded) if places <= 0 else rounded


def _by_float(function: Callable[[float], float]) -> Callable[[Context, Number], Number]:
    def apply(context: Context, number: Number) -> Number:
        # A float has fifteen reliable digits: so many are shown.
        context.flags[Inexact] = True
        return Decimal(f"{function(float(number)):.15f}")

    return apply


FUNCTIONS: dict[str, Callable[..., Number]] = {
    "sqrt": lambda context, number: context.sqrt(_exact(number)),
    "abs": lambda _context, number: abs(number) if isinstance(number, int) else number.copy_abs(),
    "round": _round,
    "floor": lambda _context, number: int(_exact(number).to_integral_value(ROUND_FLOOR)),
    "ceil": lambda _context, number: int(_exact(number).to_integral_value(ROUND_CEILING)),
    "min": lambda _context, *numbers: min(numbers, key=_exact),
    "max": lambda _context, *numbers: max(numbers, key=_exact),
    "exp": lambda context, number: context.exp(_exact(number)),
    "ln": lambda context, number: context.ln(_exact(number)),
    "log": lambda context, number, base=10: (
        context.log10(_exact(number))
        if base == 10
        else context.divide(context.ln(_exact(number)), context.ln(_exact(base)))
    ),
    "sin": _by_float(math.sin),
    "cos": _by_float(math.cos),
    "tan": _by_float(math.tan),
}
