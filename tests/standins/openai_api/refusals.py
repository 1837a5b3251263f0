"""The error that every rule of the stand-in raises."""


class Refused(Exception):
    """The request breaks a rule of the API."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        self.param = param
        self.code = code
        super().__init__(message)
