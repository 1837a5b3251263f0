"""The parts that all chat platforms share: buttons, edits, catch-up, splitting; no platform is named here."""
