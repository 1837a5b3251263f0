"""Installing the app into workspaces: OAuth, encrypted tokens, manifest, uninstalling; no code for messages."""

# The paths on which a browser starts an installation, and to which Slack redirects it.
INSTALL, REDIRECT = "/slack/install", "/slack/oauth_redirect"
