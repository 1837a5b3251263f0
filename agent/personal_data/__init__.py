"""What people may do with their own data: export it, and erase it with a receipt that can be verified."""
