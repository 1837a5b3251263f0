"""How people come to the page and leave it: one-time links, sessions, sign-out."""
