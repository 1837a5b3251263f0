"""Every door to the outside: platforms, the web, the terminal, the command line."""
