"""Tool calls as blocks of text, for models that know no tool calling; optional."""
