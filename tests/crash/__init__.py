"""Worker processes that tests kill, freeze or hold at any point of a turn."""
