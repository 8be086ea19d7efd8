"""Experiments: compare mixers with each other and with simple baselines, measure what they cost,
and write reports that contain everything needed to reproduce them."""
