"""Offers tools to a turn, checks arguments and converts results; the tools themselves are in `modules/`."""
