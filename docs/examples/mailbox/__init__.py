"""The mailbox: a chat by files."""
