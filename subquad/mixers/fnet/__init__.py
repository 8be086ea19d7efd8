"""FNet (Lee-Thorp et al. 2021): the mixer and its implementations are in ``layer``, the transforms
it can use in ``transforms``."""

from subquad.mixers.fnet.layer import PRODUCT_MAX, FNet, by_groups, by_products
from subquad.mixers.fnet.transforms import TRANSFORMS, definition, full

__all__ = [
    "PRODUCT_MAX",
    "TRANSFORMS",
    "FNet",
    "by_groups",
    "by_products",
    "definition",
    "full",
]
