"""Stand-ins for providers of models over HTTP, each in its own wire format, written from their public documentation."""

from tests.standins.providers.formats import FORMATS, Answer, Format
from tests.standins.providers.server import Broken, Failure, ProviderStub, Reply, Silence

__all__ = ["FORMATS", "Answer", "Broken", "Failure", "Format", "ProviderStub", "Reply", "Silence"]
