"""Tests of the sandbox for code."""
