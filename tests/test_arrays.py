"""The few array operations that the standard does not name, on every library under test."""

import os
import platform
import signal
import subprocess
import sys

import numpy as np
import pytest

from spdsl import backend


def test_pair_sums_count_both_ends_of_every_pair(as_array, rng):
    i, j, c = rng.integers(0, 5, 40), rng.integers(0, 7, 40), rng.standard_normal(40)
    expected = np.zeros(7)
    for index in (i, j):
        np.add.at(expected, index, c)
    found = backend.to_numpy(backend.pair_sums(7, *map(as_array, (i, j, c))))
    np.testing.assert_allclose(found, expected, atol=1e-14)


def test_pair_sums_of_nothing_are_zero(as_array):
    found = backend.to_numpy(backend.pair_sums(3, *map(as_array, (np.zeros(0, int), np.zeros(0, int), np.zeros(0)))))
    np.testing.assert_array_equal(found, np.zeros(3))


def test_inner_products_are_those_of_the_flattened_arrays(as_array, rng):
    vectors = rng.standard_normal((3, 4, 2))
    found = backend.inner_products(*map(as_array, vectors))
    np.testing.assert_allclose(found, np.einsum("aij,bij->ab", vectors, vectors), atol=1e-14)


def test_add_pairs_adds_to_both_ends_of_every_pair(as_array, rng):
    i, j, c = rng.integers(0, 5, 40), rng.integers(0, 7, 40), rng.standard_normal(40)
    first, second = rng.standard_normal((2, 40, 2, 2))
    expected = np.ones((7, 2, 2))
    np.add.at(expected, i, c[:, None, None] * first)
    np.add.at(expected, j, c[:, None, None] * second)
    out = as_array(np.ones((7, 2, 2)))
    backend.add_pairs(out, *map(as_array, (i, j, c, np.stack([first, second], axis=1))))
    np.testing.assert_allclose(backend.to_numpy(out), expected, atol=1e-14)


def test_add_pairs_of_one_derivative_for_both_ends(as_array, rng):
    i, j, c, D = (
        rng.integers(0, 5, 40),
        rng.integers(0, 7, 40),
        rng.standard_normal(40),
        rng.standard_normal((40, 2, 2)),
    )
    expected = np.zeros((7, 2, 2))
    for index in (i, j):
        np.add.at(expected, index, c[:, None, None] * D)
    out = as_array(np.zeros((7, 2, 2)))
    backend.add_pairs(out, *map(as_array, (i, j, c, D[:, None])))
    np.testing.assert_allclose(backend.to_numpy(out), expected, atol=1e-14)


@pytest.mark.parametrize("count", [6, 60])  # dense and sparse route
def test_pair_product_equals_the_dense_symmetric_matrix(as_array, rng, count):
    i, j = np.triu_indices(count, 1)
    chosen = np.sort(rng.choice(len(i), 15, replace=False))
    i, j, c, Z = i[chosen], j[chosen], rng.standard_normal(15), rng.standard_normal((count, 4))
    C = np.zeros((count, count))
    C[i, j] = C[j, i] = c
    found = backend.pair_product(as_array(i), as_array(j), as_array(c), as_array(Z))
    np.testing.assert_allclose(backend.to_numpy(found), C @ Z, atol=1e-14)
    dense = backend.pair_matrix(as_array(i), as_array(j), as_array(c), count)
    np.testing.assert_array_equal(backend.to_numpy(dense), C)


@pytest.mark.parametrize("share", [0.05, 1.0])  # sparse and dense route
def test_pair_differences_are_sums_of_differences(as_array, rng, share):
    i, j = np.triu_indices(30, 1)
    chosen = np.sort(rng.choice(len(i), int(share * len(i)), replace=False))
    i, j, c, Z = i[chosen], j[chosen], rng.standard_normal(len(chosen)), rng.standard_normal((30, 4))
    expected = np.zeros((30, 4))
    np.add.at(expected, i, c[:, None] * (Z[i] - Z[j]))
    np.add.at(expected, j, c[:, None] * (Z[j] - Z[i]))
    found = backend.pair_differences(as_array(i), as_array(j), as_array(c), as_array(Z))
    np.testing.assert_allclose(backend.to_numpy(found), expected, atol=1e-13)


def test_pair_entries_are_those_of_the_matrix(as_array, rng):
    A, i, j = rng.standard_normal((5, 7)), np.array([0, 4, 2]), np.array([6, 0, 3])
    found = backend.pair_entries(as_array(A), as_array(i), as_array(j))
    np.testing.assert_array_equal(backend.to_numpy(found), A[i, j])


@pytest.mark.parametrize("count", [20, 700])  # at once, and over threads
def test_product_by_itself_is_the_product_with_the_transpose(as_array, rng, count):
    Z = rng.standard_normal((count, 6))
    found = backend.to_numpy(backend.product_by_itself(as_array(Z)))
    np.testing.assert_allclose(found, Z @ Z.T, atol=1e-13)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="about glibc's allocator")
def test_freed_arrays_are_not_returned_to_the_system():
    """Those of a fit on small matrices: their pages need not be got back, which took a fifth of its time."""
    program = (
        "import resource, numpy as np, spdsl.backend\n"
        "def touch(): [np.ones(50_000) for _ in range(4)]\n"
        "touch(); before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "for _ in range(100): touch()\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)"
    )
    faults = int(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
    assert faults < 2_000  # of 39,000 pages touched


@pytest.mark.parametrize("count", [4, 40])  # one after the other, and all at once
@pytest.mark.parametrize("m", [1, 5, 8, 9, 37])
def test_inverse_lower_is_the_inverse_and_lower(as_array, rng, spd, count, m):
    L = np.linalg.cholesky(spd(rng, count, m, 1e3))
    inverse = backend.to_numpy(backend.inverse_lower(as_array(L)))
    np.testing.assert_allclose(inverse @ L, np.broadcast_to(np.eye(m), L.shape), atol=1e-11)
    assert not np.triu(inverse, 1).any()


def test_gram_is_the_product_with_the_transpose(as_array, rng):
    K = rng.standard_normal((4, 5, 5))
    np.testing.assert_allclose(backend.to_numpy(backend.gram(as_array(K))), K.mT @ K, atol=1e-13)


@pytest.mark.parametrize("count", [2, 40])
def test_inverse_lower_ignores_what_stands_above_the_diagonal(as_array, rng, spd, count):
    L = np.linalg.cholesky(spd(rng, count, 12))
    dirty = L + np.triu(np.ones((12, 12)), 1)
    found = backend.to_numpy(backend.inverse_lower(as_array(dirty)))
    np.testing.assert_allclose(found, backend.to_numpy(backend.inverse_lower(as_array(L))), rtol=1e-14)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("block_bytes", [8, 100, 1 << 22])
def test_blocks_cover_the_range_once_and_in_order(as_array, monkeypatch, threads, block_bytes):
    monkeypatch.setattr("spdsl.backend.blocks.threads", lambda: threads)
    monkeypatch.setattr("spdsl.backend.blocks.BLOCK_BYTES", block_bytes)
    monkeypatch.setattr("spdsl.backend.blocks.TORCH_BLOCK_BYTES", block_bytes)
    parts = list(backend.map_blocks(lambda s: np.arange(100)[s], 100, 8, on=as_array(np.zeros(1))))
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(100))
    assert len(parts) >= (100 if block_bytes == 8 else 1)


def test_over_blocks_joins_arrays_and_tuples(as_array, monkeypatch, rng):
    monkeypatch.setattr("spdsl.backend.blocks.BLOCK_BYTES", 64)
    A = rng.standard_normal((23, 2, 2))
    double = backend.over_blocks(lambda block: 2 * block, as_array(A))
    np.testing.assert_array_equal(backend.to_numpy(double), 2 * A)
    first, second = backend.over_blocks(lambda block: (block + 1, block - 1), as_array(A))
    np.testing.assert_array_equal(backend.to_numpy(first), A + 1)
    np.testing.assert_array_equal(backend.to_numpy(second), A - 1)


def test_errors_inside_blocks_reach_the_caller(monkeypatch):
    monkeypatch.setattr("spdsl.backend.blocks.BLOCK_BYTES", 64)

    def fail(s):
        raise ValueError(f"at {s.start}")

    with pytest.raises(ValueError, match="at 0"):
        list(backend.map_blocks(fail, 100, 8, on=np.zeros(1)))


def test_blocks_inside_blocks_do_not_wait_for_each_other(monkeypatch):
    monkeypatch.setattr("spdsl.backend.blocks.threads", lambda: 2)
    monkeypatch.setattr("spdsl.backend.blocks.BLOCK_BYTES", 64)

    def outer(s):
        return sum(backend.map_blocks(lambda t: t.stop - t.start, 50, 8, on=np.zeros(1))) * (s.stop - s.start)

    assert sum(backend.map_blocks(outer, 100, 8, on=np.zeros(1))) == 5000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_threads_work_in_a_forked_child(monkeypatch):
    monkeypatch.setattr("spdsl.backend.blocks.threads", lambda: 2)
    monkeypatch.setattr("spdsl.backend.blocks.BLOCK_BYTES", 64)

    def total():
        return sum(backend.map_blocks(lambda t: t.stop - t.start, 100, 8, on=np.zeros(1)))

    assert total() == 100
    child = os.fork()
    if child == 0:
        os._exit(0 if total() == 100 else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_another_thread_has_the_locks_does_not_wait_for_it(monkeypatch):
    monkeypatch.setattr("spdsl.backend.blocks.threads", lambda: 2)
    monkeypatch.setattr("spdsl.backend.blocks.BLOCK_BYTES", 64)
    with backend.one_blas_thread._lock, backend.pool._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # ends a child that waits
            total = sum(backend.map_blocks(lambda t: t.stop - t.start, 100, 8, on=np.zeros(1)))
            os._exit(0 if total == 100 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_like_and_to_numpy_go_back_and_forth(as_array, rng):
    x, model = rng.standard_normal(4), as_array(np.zeros(1))
    moved = backend.like(x, model)
    assert type(moved) is type(model)
    np.testing.assert_array_equal(backend.to_numpy(backend.like(moved, model)), x)
    assert backend.is_numpy(backend.like(moved, x))


def test_thread_count_follows_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert backend.threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "nonsense")
    assert backend.threads() >= 1


def test_asking_for_a_device_that_is_not_there_says_so():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(ValueError, match="no CUDA device"):
        backend.to_device(np.zeros(2), "cuda")
