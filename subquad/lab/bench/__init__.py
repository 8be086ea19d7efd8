"""How fast are mixers and kernels on this machine, against softmax?"""
