"""What every chat platform needs, once: buttons, edits, catch-up, splitting; no platform is named here."""
