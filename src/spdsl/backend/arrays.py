"""NumPy arrays and torch tensors: namespaces, devices, and conversions between them.

Torch is imported only if the caller passes a tensor or a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import array_api_compat.numpy
import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array

from spdsl.backend.extras import install_hint

Array = Any  # a NumPy array or a torch tensor; the standard has no common base class

KEEP_BYTES = 1 << 28  # factors of pairs up to this size are kept for the derivative; larger ones are recomputed
CHUNK_BYTES = 1 << 28  # size of the chunks in which an array moves to a device


def namespace(*arrays: Array) -> ModuleType:
    """Return the array-API namespace shared by `arrays` (NumPy or torch)."""
    for x in arrays:
        if type(x) is not np.ndarray:
            xp: ModuleType = array_namespace(*arrays)
            return xp
    return array_api_compat.numpy  # as by `array_namespace`, which takes as long as a product of small matrices


def is_numpy(x: Array) -> bool:
    """Tell whether `x` is a NumPy array."""
    return type(x) is np.ndarray or bool(is_numpy_array(x))


def is_array(x: Any) -> bool:
    """Tell whether `x` is a NumPy array or a torch tensor."""
    return bool(is_numpy_array(x) or is_torch_array(x))


def detached(x: Array) -> Array:
    """Return a tensor without its autograd history, which is not needed here. Arrays are returned as they are."""
    return x.detach() if is_torch_array(x) else x


def to_numpy(x: Array) -> np.ndarray:
    """Return `x` as a NumPy array on the host."""
    if is_torch_array(x):
        return x.detach().cpu().numpy()
    return np.asarray(x)


def real_numbers(values: Any, name: str) -> np.ndarray:
    """A float64 copy of weights or the like on the host; strings, complex and masked values are errors."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries; remove these samples, or give each a number")
    try:
        array = to_numpy(values)
    except ValueError as error:
        raise ValueError(f"{name} must be an array of real numbers, got rows of different lengths") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an array of real numbers, got dtype {array.dtype}")
    return np.array(array, dtype=np.float64)


def like(x: Array, model: Array) -> Array:
    """Return `x` in the array library and on the device of `model`."""
    if is_numpy_array(model):
        return to_numpy(x)
    xp = namespace(model)
    if is_torch_array(x):
        return x.to(model.device)
    return xp.asarray(_shareable(x), device=model.device)


def double(x: Array) -> Array:
    """Return `x` as float64; `x` itself if it already is."""
    return namespace(x).astype(x, namespace(x).float64, copy=False)


def to_device(x: Array, device: Any, *, single: bool = False) -> Array:
    """Move `x` to `device`, as float32 if `single`; NumPy arrays become torch tensors there. `None` leaves it where it is.

    Arrays move to another device in chunks, so that neither side holds a second copy of `x`.
    """
    xp = namespace(x)
    if device is None:
        return xp.astype(x, xp.float32, copy=False) if single else x
    torch, target = _torch_device(device)
    if is_torch_array(x) and x.device == target:
        return x.to(torch.float32) if single else x
    dtype = torch.float32 if single else torch.as_tensor(_shareable(x[:0])).dtype
    if target.type == "cpu":
        return torch.as_tensor(_shareable(x), dtype=dtype, device=target)
    out = torch.empty(tuple(x.shape), dtype=dtype, device=target)
    rows = max(1, CHUNK_BYTES // max(1, x.nbytes // max(1, x.shape[0])))
    for start in range(0, x.shape[0], rows):
        out[start : start + rows] = torch.as_tensor(_shareable(x[start : start + rows]))
    return out


def _torch_device(device: Any) -> tuple[ModuleType, Any]:
    """PyTorch and the device of this name, or an error with a remedy."""
    if not isinstance(device, str | int) and not hasattr(device, "type"):  # said the same with and without PyTorch
        raise ValueError(f"device={device!r} is not a PyTorch device; use device=None, 'cpu' or 'cuda'")
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"device={device!r} needs PyTorch: {install_hint('torch')}") from error
    try:
        target = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device={device!r} is not a PyTorch device; use device=None, 'cpu' or 'cuda'") from error
    if target.type != "cuda":
        return torch, target
    if not torch.cuda.is_available():
        raise ValueError(f"device={device!r}: PyTorch finds no CUDA device; use device=None or 'cpu'")
    index = torch.cuda.current_device() if target.index is None else target.index
    return torch, torch.device("cuda", index)


def check_device(device: Any) -> None:
    """Raise unless there is such a device."""
    _torch_device(device)


def free_bytes(device: Any) -> int | None:
    """Free memory of a CUDA device, including what the allocators hold unused; None for the host, which can swap."""
    if device is None:
        return None
    torch, target = _torch_device(device)
    if target.type != "cuda":
        return None
    held = torch.cuda.memory_reserved(target) - torch.cuda.memory_allocated(target)
    return int(torch.cuda.mem_get_info(target)[0] + held)


def keep_bytes(x: Array) -> int:
    """How much memory may be used next to `x` to avoid recomputation."""
    free = None if is_numpy_array(x) else free_bytes(x.device)
    return KEEP_BYTES if free is None else free // 4


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that device memory is exhausted; torch and CuPy each have a class of this name."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def _shareable(x: Array) -> Array:
    """A copy of a NumPy array if torch cannot share its memory (read-only, or negative strides); else `x` itself."""
    if not is_numpy_array(x) or (x.flags.writeable and min(x.strides, default=0) >= 0):
        return x
    return np.array(x, order="C")


def empty(shape: tuple[int, ...], model: Array) -> Array:
    """Return an uninitialized array of the library, dtype and device of `model`."""
    return namespace(model).empty(shape, dtype=model.dtype, device=model.device)


def concat(parts: Sequence[Array]) -> Array:
    """Concatenate arrays along their first axis."""
    return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(list(parts), axis=0)


def copy(x: Array) -> Array:
    """Return a copy with the same memory order."""
    return x.copy(order="K") if is_numpy_array(x) else x.clone()
