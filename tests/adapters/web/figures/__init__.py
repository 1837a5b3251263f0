"""What the pages cost in time, on this machine; run by `make bench-pages`."""
