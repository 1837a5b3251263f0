"""Runs untrusted programs in processes without rights: Landlock, seccomp, resource limits."""
