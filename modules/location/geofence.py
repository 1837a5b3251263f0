"""Where a person is in relation to a circle on the map."""

from math import asin, cos, radians, sin, sqrt

EARTH_METRES = 6_371_008.8
# Who has come in leaves only this far outside, so that a position that wavers at the edge changes nothing.
MARGIN_METRES, MARGIN_SHARE = 50.0, 0.2


def distance(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the great-circle distance of two points in metres; points are latitude and longitude in degrees."""
    (latitude_1, longitude_1), (latitude_2, longitude_2) = (tuple(map(radians, point)) for point in (one, other))
    half = sin((latitude_2 - latitude_1) / 2) ** 2
    half += cos(latitude_1) * cos(latitude_2) * sin((longitude_2 - longitude_1) / 2) ** 2
    return 2 * EARTH_METRES * asin(min(1.0, sqrt(half)))


def is_inside(was_inside: bool | None, metres: float, *, radius: float, accuracy: float) -> bool | None:
    """Return whether a person is inside, at this distance of the centre; None while that is not known yet.

    A position that is less exact than the circle is large decides nothing.
    """
    if accuracy > max(radius, MARGIN_METRES):
        return was_inside
    if was_inside:
        return metres <= radius + max(MARGIN_METRES, MARGIN_SHARE * radius, accuracy)
    return metres <= radius
