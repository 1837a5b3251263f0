"""How a request is written for a route and its answer read; the writers of the text protocols are not here."""
