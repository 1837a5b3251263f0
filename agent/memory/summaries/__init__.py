"""Summaries of conversations, written in the background from the transcript; `context` shows them."""
