"""The model that plays a list of replies (`DEBUG_MOCK_RESPONSES`); optional."""
