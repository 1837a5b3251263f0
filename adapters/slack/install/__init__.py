"""Installing the app into workspaces: OAuth, tokens at rest, manifest, removal; nothing here knows a message."""

# Where a browser begins an installation, and where Slack sends it back to.
INSTALL, REDIRECT = "/slack/install", "/slack/oauth_redirect"
