"""Strict stand-ins for outside services: they speak the real wire protocols on loopback."""
