"""The demo: what subquad is for, shown on built-in data in a few minutes."""
