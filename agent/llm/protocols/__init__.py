"""Protocols: encode requests for a route and decode its answers; the text writers are in `text_protocols`."""
