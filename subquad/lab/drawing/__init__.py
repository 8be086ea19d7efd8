"""Plots as SVG, and what all report pages share."""
