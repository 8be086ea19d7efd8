"""What it is for, on built-in data, in a few minutes."""
