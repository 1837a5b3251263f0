"""Commands, menus and buttons on Discord, acknowledged in time; ordinary messages are in `events`."""
