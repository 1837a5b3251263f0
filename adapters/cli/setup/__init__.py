"""`parley setup`: a wizard that asks, tries what is typed, and writes `.env` at the end."""
