"""Runs untrusted code, and parsers of untrusted files, in processes without rights: Landlock, seccomp, limits."""
