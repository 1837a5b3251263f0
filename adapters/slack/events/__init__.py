"""What Slack's Events API tells, as messages for the inbox; clicks and commands are in `interactions`."""
