"""Reads documents: PDF, Word, Excel, HTML and text, each parsed in the sandbox."""
