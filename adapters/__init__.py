"""Every way in and out: chat platforms, the web, other agents, the terminal, the command line; no answer is made here."""
