"""Sends replies to Discord; the content of a reply is decided elsewhere."""
