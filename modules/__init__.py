"""The program's own modules, one folder of tools each; what several of them need is in `shared`."""
