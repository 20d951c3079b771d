"""Arrays of NumPy or PyTorch, threads and blocks, batched linear algebra, sums over pairs.

The only subpackage that imports torch or CuPy, and only if the caller passes a tensor or a device.
"""

from spdsl.backend.arrays import (
    Array,
    check_device,
    concat,
    copy,
    detached,
    double,
    empty,
    free_bytes,
    is_array,
    is_numpy,
    is_out_of_memory,
    keep_bytes,
    like,
    namespace,
    real_numbers,
    to_device,
    to_numpy,
)
from spdsl.backend.blocks import block_bytes, held_blas, map_blocks, over_blocks, own_threads
from spdsl.backend.linalg import (
    add_scaled,
    eigh,
    eigvalsh,
    gram,
    inner_products,
    inverse_lower,
    moved,
    product,
    product_by_itself,
    product_into,
    slow_svd,
    symmetric,
)
from spdsl.backend.memory import check_pairs_fit, keep_freed_memory
from spdsl.backend.pairs import (
    add_pairs,
    pair_differences,
    pair_entries,
    pair_matrix,
    pair_max,
    pair_product,
    pair_sums,
)
from spdsl.backend.pencils import pencil_logdets
from spdsl.backend.threads import one_blas_thread, pool, threads

__all__ = [
    "Array",
    "add_pairs",
    "add_scaled",
    "block_bytes",
    "check_device",
    "check_pairs_fit",
    "concat",
    "copy",
    "detached",
    "double",
    "eigh",
    "eigvalsh",
    "empty",
    "free_bytes",
    "gram",
    "held_blas",
    "inner_products",
    "inverse_lower",
    "is_array",
    "is_numpy",
    "is_out_of_memory",
    "keep_bytes",
    "like",
    "map_blocks",
    "moved",
    "namespace",
    "one_blas_thread",
    "over_blocks",
    "own_threads",
    "pair_differences",
    "pair_entries",
    "pair_matrix",
    "pair_max",
    "pair_product",
    "pair_sums",
    "pencil_logdets",
    "pool",
    "product",
    "product_by_itself",
    "product_into",
    "real_numbers",
    "slow_svd",
    "symmetric",
    "threads",
    "to_device",
    "to_numpy",
]

keep_freed_memory()
