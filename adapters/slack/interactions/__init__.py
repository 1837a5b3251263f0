"""Commands, buttons, forms and the Home tab on Slack; ordinary messages are in `events`."""
