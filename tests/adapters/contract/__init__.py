"""The contract of a chat platform: one set of stories, run against every driver in this folder.

A driver is a module named like its adapter with a class `Driver`; adding one touches no other file.
"""
