"""Which mixer is best for this data? Train each one with the same budget and compare them."""
