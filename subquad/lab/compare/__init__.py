"""Which mixer is best for this data? Train each at equal budget, and say so."""
