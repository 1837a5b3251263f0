"""Dry runs: a changed persona answers recorded turns again; nothing is sent, and no tool runs."""
