"""One message in, one reply out; knows no platform, and no module by name."""
