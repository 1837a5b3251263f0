"""The command line, through the console script that people type."""
