"""Matrix: one account of a homeserver, by the Client-Server API."""
