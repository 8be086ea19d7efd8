"""The papers, written as NumPy loops in double precision. One file per mixer, no code of subquad.

Each file offers ``bidirectional`` and/or ``causal``: ``(x, weights, **options) -> y`` for *one* row
``x`` ``[t, d]`` of real tokens, with ``weights`` the module's ``state_dict`` as arrays and
``options`` the mixer's own keyword options. Padding is not their business: a masked token
is a token that is not there.

``VARIANTS``, if a file has them, are the options beside the defaults whose mathematics or code
differs: those of "both" directions, and those of one.
"""
