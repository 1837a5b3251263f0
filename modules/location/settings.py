"""The settings of the module, read from variables that begin with `LOCATION_`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocationSettings:
    """An address that speaks Nominatim's protocol; the public one allows one request per second."""

    geocoder_url: str = "https://nominatim.openstreetmap.org"
    """Where places are looked up by their names."""
