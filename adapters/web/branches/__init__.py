"""Branches of chats: a message that is said otherwise, an answer that is asked for again."""
