"""What conversations leave in the memory: the messages of each turn, and the facts that people stated."""
