"""Files of users: storage, names, type detection, image conversion, a sandbox for parsers; no tools."""
