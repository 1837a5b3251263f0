"""`python -m adapters.cli` is the same as `parley`."""

from adapters.cli import main

main()
