"""The tests of survival for minutes instead of moments; `make soak` runs them."""
