"""Every way in and out: chat platforms, web, other agents, terminal, command line; no answer is made here."""
