"""The pages of turns: the list, and why one went as it did."""
