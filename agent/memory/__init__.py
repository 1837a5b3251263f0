"""What conversations leave behind: messages, facts, summaries; finding memories again is in `shared/memory`."""
