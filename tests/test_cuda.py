"""On a CUDA device: the same numbers as on the CPU, NumPy in and NumPy out, CuPy for the larger eigen-problems."""

import sys
import warnings

import numpy as np
import pytest

from samples import aligned, make_spd
from spdsl import backend, pairwise_sqdist
from spdsl.backend import linalg
from spdsl.data import MemoryData, at_work
from spdsl.geometry import METRICS


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return torch


@pytest.fixture
def data(rng):
    y = np.arange(40) % 4
    X = make_spd(rng, 40, 48, 30)
    X[:, 2, 2] += 2.0 * y
    X[:, 4, 4] += 1.5 * (y == 1)
    return X, y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("m", [5, 40])  # torch's own eigh, and CuPy's
@pytest.mark.parametrize("metric", ["lem", "aim", "stein"])
def test_a_fit_on_the_device_is_the_fit_on_the_cpu(torch, data, metric, m):
    X, y = data
    host, device = (aligned(m, metric=metric, max_iter=8, device=where).fit(X, y) for where in (None, "cuda"))
    assert device.cost_ == pytest.approx(host.cost_, rel=1e-8)
    assert type(device.components_) is np.ndarray
    np.testing.assert_array_equal(device.predict(X), host.predict(X))


@pytest.mark.parametrize("metric", METRICS)
def test_distances_on_the_device_are_those_on_the_cpu(torch, data, metric):
    found = pairwise_sqdist(torch.as_tensor(data[0], device="cuda"), metric=metric)
    np.testing.assert_allclose(found.cpu().numpy(), pairwise_sqdist(data[0], metric=metric), rtol=1e-8, atol=1e-8)


def test_eigh_beyond_32_goes_through_cupy(torch, data):
    pytest.importorskip("cupy", reason="needs CuPy")
    P = torch.as_tensor(data[0], device="cuda")
    w, V = backend.eigh(P)
    np.testing.assert_allclose(w.cpu().numpy(), np.linalg.eigvalsh(data[0]), rtol=1e-10)
    np.testing.assert_allclose((V * w[:, None, :] @ V.mT).cpu().numpy(), data[0], atol=1e-10)
    np.testing.assert_allclose(backend.eigvalsh(P).cpu().numpy(), w.cpu().numpy(), rtol=1e-10)


def test_a_stack_that_is_too_large_for_the_device_says_so(torch, data):
    X = MemoryData(np.broadcast_to(data[0][0], (torch.cuda.mem_get_info()[1] // 10000, 48, 48)))
    with pytest.raises(MemoryError, match=r"needs about .* GB on 'cuda', where"), at_work(X, "SPDSL", 40, "cuda"):
        pass


# ------------------------------------------------------------------------------------------ without a device


def test_without_cupy_a_warning_says_what_it_costs(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    linalg._cupy.cache_clear()
    try:
        with pytest.warns(UserWarning, match=r"about 100 times slower on this device; pip install 'cupy-cuda13x"):
            assert linalg._cupy() is None
        with warnings.catch_warnings():  # once is enough
            warnings.simplefilter("error")
            assert linalg._cupy() is None
    finally:
        linalg._cupy.cache_clear()


@pytest.mark.parametrize(("size", "count", "beyond"), [(32, 5, False), (33, 5, True), (40, 1, False)])
def test_only_stacks_of_larger_matrices_on_a_device_leave_torch(monkeypatch, size, count, beyond):
    class OnDevice:  # what the routing looks at
        is_cuda, ndim, shape = True, 3, (count, size, size)

    monkeypatch.setattr(linalg, "is_torch_array", lambda x: True)
    assert linalg._beyond_torch(OnDevice()) is beyond
