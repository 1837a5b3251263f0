"""The pages of personas: the list, the editor with a preview and a dry run, the versions."""
