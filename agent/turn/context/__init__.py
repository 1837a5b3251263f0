"""Builds the prompt of a turn from history, files, images and memories; `agent/llm` sends it to a model."""
