"""The pool of a process, connections through a pooler, and how many connections a server has to take."""
