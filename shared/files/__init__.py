"""Files: where their bytes are kept, how they are named and checked, the sandbox of their parsers; no tools."""
