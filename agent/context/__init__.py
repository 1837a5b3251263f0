"""What a model is shown in a turn: history, files, images, memories; requests to a model are in `agent/llm`."""
