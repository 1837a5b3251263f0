"""How a reply goes out on Discord; what it says is decided before."""
