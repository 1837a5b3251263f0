"""How a reply goes out on Slack; what it says is decided before."""
