"""The scripted model, which answers from a list (`DEBUG_MOCK_RESPONSES`); optional."""
