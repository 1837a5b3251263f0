"""Events of Discord's gateway, converted to messages; clicks and commands are in `interactions`."""
