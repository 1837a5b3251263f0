"""Long-running tests under load; `make soak` runs them."""
