"""Tests of the module code_executor."""
