"""The modules: one folder with tools each, found by listing this package."""
