"""Makes `python -m adapters.cli` the same as `parley`."""

from adapters.cli import main

main()
