"""Installing the app into workspaces: OAuth, encrypted tokens, manifest, uninstalling; no code for messages."""

# The paths on which a browser starts an installation, and to which Slack redirects it.
INSTALL, REDIRECT = "/slack/install", "/slack/oauth_redirect"
# The slash command, and the shortcut below messages.
COMMAND, CALLBACK = "/parley", "ask_parley"
# The scopes that the app requests: one for each method or event that is used.
SCOPES = (
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:write",
    "mpim:history",
    "mpim:read",
    "usergroups:read",
    "users:read",
)
