"""The tools that a turn is offered, their arguments and results; the tools themselves are in `modules/`."""
