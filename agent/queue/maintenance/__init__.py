"""Periodic work on the tables: totals for the metrics, and the removal of rows that are older than their retention."""
