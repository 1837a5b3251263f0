"""Chats that their person shows to whoever has a link."""
