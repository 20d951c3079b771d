"""Stacks on disk: the same answers as in memory, a block of memory at a time, and clear errors when files change."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import cross_val_score

from samples import aligned, labeled
from spdsl import SPDML, pairwise_sqdist
from spdsl.data import DiskData, as_data, factor_file, readers
from spdsl.geometry import METRICS
from spdsl.learning.graph import survey_pairs

N, n = 40, 6
X, Y = labeled(N, n)
SIZE = 9 * 8 * n * n  # bytes of nine matrices: five blocks


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(readers, "BLOCK_BYTES", SIZE)
    monkeypatch.setattr(factor_file, "ROWS_BYTES", 1)
    monkeypatch.setattr("spdsl.data.neighbor_search.BLOCK_PAIRS", 49)


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "stack.npy", X)
    return tmp_path / "stack.npy"


def backwards(folder):
    np.save(folder / "back.npy", X[::-1])
    return np.load(folder / "back.npy", mmap_mode="r")[::-1]


def in_h5(folder):
    h5py = pytest.importorskip("h5py")
    file = h5py.File(folder / "stack.h5", "w")
    return file.create_dataset("X", data=X, chunks=(7, n, n), compression="gzip")


def in_zarr(folder):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(str(folder / "stack.zarr"), shape=X.shape, chunks=(7, n, n), dtype="f8")
    array[:] = X
    return array


def in_files(folder):
    parts = np.split(X, [1, 12, 30])
    for k, part in enumerate(parts):
        np.save(folder / f"part{k}.npy", part)
    return [folder / f"part{k}.npy" for k in range(len(parts))]


def as_map(folder):
    np.save(folder / "map.npy", X)
    return np.load(folder / "map.npy", mmap_mode="r")


def strided_map(folder):
    np.save(folder / "wide.npy", np.repeat(np.concatenate([X[:1], X]), 2, axis=0))
    return np.load(folder / "wide.npy", mmap_mode="r+")[3::2]


PLACES = {
    "path": lambda folder: np.save(folder / "a.npy", X) or str(folder / "a.npy"),
    "memory map": as_map,
    "view of a memory map": strided_map,
    "memory map read backwards": backwards,
    "HDF5": in_h5,
    "Zarr": in_zarr,
    "files": in_files,
}


@pytest.mark.parametrize("place", PLACES)
def test_a_fit_on_disk_equals_the_fit_in_memory(place, tmp_path):
    stack = PLACES[place](tmp_path)
    assert isinstance(as_data(stack), DiskData)
    model = aligned(3, n_within=3, n_between=4, beta="original", max_iter=15, tol=0.0)
    expected = model.fit(X, Y)
    W, P, history = expected.components_, expected.transform(X), expected.history_
    model.fit(stack, Y)
    assert_allclose(model.components_, W, rtol=0, atol=1e-10)
    assert_allclose(model.transform(stack), P, rtol=0, atol=1e-10)
    assert_allclose([r["value"] for r in model.history_], [r["value"] for r in history], rtol=1e-12)
    assert_array_equal(model.predict(stack), model.predict(X))
    assert model.n_passes_ == model.n_iter_ + 1


@pytest.mark.parametrize("metric", METRICS)
def test_the_graph_of_a_stack_on_disk_equals_that_in_memory(metric, path):
    expected = survey_pairs(as_data(X), Y, METRICS[metric], 2, 3)
    found = survey_pairs(as_data(path), Y, METRICS[metric], 2, 3)
    assert_array_equal(found.graph.i, expected.graph.i)
    assert_array_equal(found.graph.j, expected.graph.j)
    assert_allclose(found.mean_distance, expected.mean_distance, rtol=1e-12)


@pytest.mark.parametrize("manifold", ["psd", "grassmann"])
def test_products_too_large_to_keep_cost_a_second_pass_and_change_nothing(manifold, path, monkeypatch):
    model = SPDML(3, n_within=3, n_between=4, manifold=manifold, max_iter=10, tol=0.0).fit(X, Y)
    W = model.components_
    monkeypatch.setattr("spdsl.data.disk.KEEP_BYTES", 0)
    model.fit(path, Y)
    assert_allclose(model.components_, W, rtol=0, atol=1e-9)
    assert model.n_passes_ > 2 * model.n_iter_


def test_float32_on_disk_is_what_float32_in_memory_is(tmp_path):
    np.save(tmp_path / "a.npy", X.astype("f4"))
    model = aligned(3, max_iter=5).fit(X.astype("f4"), Y)
    W = model.components_
    assert_allclose(model.fit(tmp_path / "a.npy", Y).components_, W, atol=1e-10)


def test_cross_validation_reads_folds_from_disk(path):
    model = aligned(3, max_iter=5)
    on_disk = cross_val_score(model, as_data(path), Y, cv=3)
    assert_array_equal(on_disk, cross_val_score(model, X, Y, cv=3))


def test_cost_on_disk_equals_cost_in_memory(path):
    W = np.linalg.qr(np.random.default_rng(0).standard_normal((n, 3)))[0]
    value, gradient = aligned(3).cost(path, Y)(W)
    expected, slope = aligned(3).cost(X, Y)(W)
    assert_allclose(value, expected, rtol=1e-12)
    assert_allclose(gradient, slope, atol=1e-12)


def test_copies_on_disk_are_found(tmp_path):
    twice = np.concatenate([X, X[5:7]])
    np.save(tmp_path / "a.npy", twice)
    first = as_data(tmp_path / "a.npy").first_copies()
    assert first.tolist() == [*range(N), 5, 6]


def test_the_last_block_is_not_overwritten_while_it_is_used(path):
    for where, block in readers.stream(readers.FileReader.npy(path)):
        assert_array_equal(block, X[where])


# ---------------------------------------------------------------------- what goes wrong


def change_after(model, rows, change):
    """Let `change` happen in the middle of a fit."""

    def callback(row, W):
        if row["iteration"] == rows:
            change()

    return model.set_params(callback=callback)


def free_of_open_files(folder):
    opened = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return not any(str(folder) in name for name in opened)


def shrink(path):
    os.truncate(path, os.path.getsize(path) // 2)


def replace(path):
    np.save(path.with_name("other.npy"), X)
    os.replace(path.with_name("other.npy"), path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (shrink, "was changed after it was first read"),
        (os.remove, "can no longer be opened"),
        (replace, "was changed after it was first read"),
    ],
)
def test_a_file_that_changes_during_a_fit_is_an_error(change, message, path):
    model = change_after(aligned(3), 2, lambda: change(path))
    with pytest.raises(OSError, match=rf"stack\.npy {message}"):
        model.fit(path, Y)
    assert not hasattr(model, "components_")
    assert free_of_open_files(path.parent)


def test_a_file_that_shrinks_during_a_pass_is_an_error(path):
    for where, _ in (passing := readers.stream(readers.FileReader.npy(path))):
        if where.start == 0:
            shrink(path)
            with pytest.raises(OSError, match=r"stack\.npy ends before matrix 27: it was truncated during the fit"):
                list(passing)
    assert free_of_open_files(path.parent)


def test_a_dataset_whose_file_is_closed_is_an_error(tmp_path):
    dataset = in_h5(tmp_path)
    model = change_after(aligned(3), 2, lambda: dataset.file.close())
    with pytest.raises(OSError, match=r"h5py array /X could not be read at matrix 0"):
        model.fit(dataset, Y)


@pytest.mark.parametrize("fill", [0.0, np.nan])
def test_a_zarr_chunk_that_disappears_is_an_error(fill, tmp_path):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(str(tmp_path / "a"), shape=X.shape, chunks=(7, 3, 3), dtype="f8", fill_value=fill)
    array[:] = X
    chunk = next(p for p in (tmp_path / "a").rglob("*") if p.parts[-3:] == ("2", "1", "0"))
    model = change_after(aligned(3), 2, chunk.unlink)
    with pytest.raises(OSError, match="was changed after it was first read, in matrices 9 to 17; do not modify it"):
        model.fit(array, Y)


def test_a_zarr_chunk_that_was_never_written_is_named_by_its_first_matrix(tmp_path):
    array = in_zarr(tmp_path)
    next(p for p in (tmp_path / "stack.zarr").rglob("*") if p.parts[-3:] == ("2", "0", "0")).unlink()
    with pytest.raises(ValueError, match=r"X\[14\] is all zero"):
        aligned(3).fit(array, Y)


def test_a_dataset_whose_file_was_closed_before_is_an_error(tmp_path):
    dataset = in_h5(tmp_path)
    dataset.file.close()
    with pytest.raises(OSError, match=r"X is <Closed HDF5 dataset> and cannot be read .* open its file again"):
        aligned(3).fit(dataset, Y)


def test_a_file_of_datasets_is_an_error(tmp_path):
    with (
        in_h5(tmp_path).file as file,
        pytest.raises(TypeError, match=r"is a group of arrays; pass one of them, e\.g\. X\['name'\]"),
    ):
        aligned(3).fit(file, Y)


def test_a_map_of_a_file_that_was_replaced_shows_what_was_mapped(path):
    expected = aligned(3, max_iter=2).fit(X, Y).components_
    stack = np.load(path, mmap_mode="r")
    np.save(path.with_name("other.npy"), X[::-1])
    os.replace(path.with_name("other.npy"), path)
    assert_allclose(aligned(3, max_iter=2).fit(stack, Y).components_, expected, atol=1e-12)


@pytest.mark.parametrize("method", ["fit", "transform"])
def test_a_bad_matrix_in_the_middle_is_named_by_its_index_among_all(method, tmp_path):
    bad = X.copy()
    bad[23, 0, 0] = -1
    np.save(tmp_path / "a.npy", bad[:20])
    np.save(tmp_path / "b.npy", bad[20:])
    model = aligned(3, max_iter=1).fit(X, Y)
    with pytest.raises(ValueError, match=r"X\[23\] is not positive definite: smallest eigenvalue"):
        getattr(model, method)([tmp_path / "a.npy", tmp_path / "b.npy"], *([Y] if method == "fit" else []))


def test_files_of_different_sizes_are_an_error(tmp_path):
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X[:, :5, :5])
    with pytest.raises(ValueError, match=r"b\.npy holds 5 x 5 matrices and .*a\.npy 6 x 6: pass matrices of one size"):
        aligned(3).fit([tmp_path / "a.npy", tmp_path / "b.npy"], Y)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.asfortranarray(X), r"C order, but is in Fortran order; save it again"),
        (X[0], r"must hold an array of shape \(n_matrices, n, n\), but its shape is \(6, 6\)"),
        (X * 1j, "must hold real numbers, but its dtype is complex128; save X.astype"),
        (np.array([{}]), "is not a complete .npy file of numbers"),
        (X[:0], r"has no matrices: its shape is \(0, 6, 6\)"),
    ],
)
def test_files_that_hold_no_stack_are_an_error(content, message, tmp_path):
    np.save(tmp_path / "a.npy", content)
    with pytest.raises(ValueError, match=message):
        aligned(3).fit(tmp_path / "a.npy", Y)


def test_files_of_other_kinds_are_named(path):
    with pytest.raises(ValueError, match=r"a list of files, but b\.h5 is not an \.npy file"):
        aligned(3).fit([path, "b.h5"], Y)


def test_other_methods_say_that_they_do_not_read_in_blocks(path):
    with pytest.raises(
        TypeError, match=r"stack\.npy is read in blocks, which only SPDSL and SPDML support; .* np\.load"
    ):
        pairwise_sqdist(as_data(path))


def test_a_folder_for_temporary_files_that_is_gone_is_an_error(path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(path.parent / "gone"))
    with pytest.raises(OSError, match=r"cannot create a temporary file \(No such file .*gone, .*set TMPDIR"):
        aligned(3, n_within=2, n_between=2).fit(path, Y)


def test_a_file_cut_short_is_an_error(path):
    shrink(path)
    with pytest.raises(ValueError, match=r"stack\.npy is not a complete \.npy file"):
        aligned(3).fit(path, Y)


def test_a_disk_that_fills_is_an_error_that_says_what_room_is_needed(path, monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", lambda buffering: Path("/dev/full").open("r+b", buffering))  # noqa: SIM115
    with pytest.raises(OSError, match=r"no space for a temporary file of .* GB in .*set TMPDIR"):
        aligned(3, n_within=2, n_between=2).fit(path, Y)
    assert free_of_open_files("/dev/full")


LIMITED = """
import resource, sys
import numpy as np
from spdsl import SPDSL
from spdsl.data import factor_file, readers
readers.BLOCK_BYTES, factor_file.ROWS_BYTES = 1 << 20, 1 << 23
path, labels = sys.argv[1], np.arange(int(sys.argv[2])) % 3
model = SPDSL(2, metric="euclid", classifier="nn", max_iter=2, tol=0.0, n_within=2, n_between=2)
model.fit(np.load(path, mmap_mode="r")[:100], labels[:100])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model.fit(path, labels)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_is_set_by_a_block(tmp_path):
    size, many = 160, 500  # 102 MB
    stack = np.lib.format.open_memmap(tmp_path / "a.npy", mode="w+", dtype="f8", shape=(many, size, size))
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
    for k in range(many):
        stack[k] = (basis * rng.uniform(1, 3, size)) @ basis.T
    stack.flush()
    del stack
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LIMITED, str(tmp_path / "a.npy"), str(many)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert 1024 * int(out.stdout) < 0.25 * Path(tmp_path / "a.npy").stat().st_size


def test_a_file_that_disappears_behind_the_last_iteration_leaves_the_model_as_it_was(path, tmp_path):
    model = aligned(3, max_iter=2, tol=0.0).fit(X, (Y + 1) % 2)
    before = dict(vars(model))
    model.set_params(checkpoint=tmp_path / "snapshot", max_iter=10)
    with pytest.raises(OSError, match=r"stack\.npy can no longer be opened"):
        change_after(model, 10, lambda: os.remove(path)).fit(path, Y)
    assert all(vars(model)[name] is value for name, value in before.items() if name.endswith("_"))
    assert (tmp_path / "snapshot").exists()  # so that the iterations are not lost


def test_an_interruption_before_the_iterations_leaves_the_model_as_it_was(path, monkeypatch):
    def interrupted(self, metric):
        raise KeyboardInterrupt

    model = aligned(3, max_iter=2).fit(X[:, :5, :5], Y)
    monkeypatch.setattr("spdsl.data.DiskData.sqdist_blocks", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(n_within=2).fit(path, Y)
    assert model.n_features_in_ == 5
    assert model.score(X[:, :5, :5], Y) > 0.5
