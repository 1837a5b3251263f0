"""How a route is asked and its answer read, whichever model it is; writers of single text protocols live beside it."""
