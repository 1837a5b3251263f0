"""The offline model, a small rule-based model that needs no provider; optional."""
