"""The platform Slack: one process or several listen through a socket or by HTTP, every worker sends by the Web API."""
