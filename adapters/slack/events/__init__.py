"""Events of Slack's Events API, accepted as messages; clicks and commands are in `interactions`."""
