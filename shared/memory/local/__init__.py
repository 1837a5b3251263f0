"""The embedding model that runs on this machine, in a process of its own; its weights come with a package."""
