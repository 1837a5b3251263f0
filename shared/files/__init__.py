"""Files of users: storage, names, type detection, image conversion; no tools."""
