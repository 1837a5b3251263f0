"""What Discord's gateway tells, as messages for the inbox; clicks and commands are in `interactions`."""
