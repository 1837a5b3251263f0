"""Writers of requests as text, for models without tool calling; optional. Answers are read in `protocols`."""
