"""Which mixer is best for this data? Train each one with the same budget and compare them."""

#: Minutes for teaching a mixer from the body that a comparison starts from, unless said otherwise.
TEACHING = 3.0
