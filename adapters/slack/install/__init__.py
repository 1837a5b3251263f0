"""Installing the app into workspaces: OAuth, tokens at rest, manifest, removal; nothing here knows a message."""
