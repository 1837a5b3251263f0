"""What people think of answers on the page."""
