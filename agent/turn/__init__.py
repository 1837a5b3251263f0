"""One turn from its beginning to its reply: open, loop, close. What it shows the model is built in `agent/context`."""
