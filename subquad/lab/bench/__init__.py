"""How fast mixers and kernels are on this machine, compared with softmax attention."""
