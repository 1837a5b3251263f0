"""Forms for admins in chats: described once, shown by each platform, sent to functions of the database."""
