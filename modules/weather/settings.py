"""The settings of the module, read from variables that begin with `WEATHER_`."""

from dataclasses import dataclass

from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class WeatherSettings:
    """Addresses that speak Open-Meteo's protocol; only its paid plans need a key."""

    url: str = "https://api.open-meteo.com"
    """A service that speaks Open-Meteo's protocol; it may be on a private network."""
    geocoding_url: str = "https://geocoding-api.open-meteo.com"
    """The same for the search of places."""
    api_key: SecretStr | None = None
    """Only for Open-Meteo's paid plans, and commercial use needs one."""
