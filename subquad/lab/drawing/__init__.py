"""Pictures as SVG, and what all pages share."""
