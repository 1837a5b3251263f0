"""The terminal: a conversation with the agent, typed by a person or piped from a program.

A command imports what it uses of these files: one question through a pipe draws nothing and reads no keys.
"""
