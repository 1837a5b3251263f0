"""What a model is shown in a turn: history, files, images, memories; not how it is asked (`agent/llm`)."""
