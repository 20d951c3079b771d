"""Samples on a cluster: the same fit as in memory, also when a worker dies, and clear errors when the cluster does."""

import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from samples import aligned, labeled
from spdsl import SPDML
from spdsl.data import ClusterData, ClusterError, DiskData, as_data, cluster_worker
from spdsl.data.bounded_search import bounded
from spdsl.data.neighbor_search import search_blocks
from spdsl.geometry import METRICS
from spdsl.learning.graph import survey_pairs

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

N, n = 42, 6
X, Y = labeled(N, n)
FIT = {"n_within": 3, "n_between": 4, "beta": "original", "max_iter": 12, "tol": 0.0}


@pytest.fixture(scope="module", autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the event loops and sockets of a cluster that comes and goes
        yield


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", protocol="tcp://"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def files(tmp_path):
    parts = np.split(X, [9, 20, 33])
    for k, part in enumerate(parts):
        np.save(tmp_path / f"part{k}.npy", part)
    return [str(tmp_path / f"part{k}.npy") for k in range(len(parts))]


def let_workers_return(client):
    """For the tests that follow, which do with one: Dask's nanny does not always bring back a worker that was killed."""
    with suppress(TimeoutError):
        client.wait_for_workers(2, timeout=30)


def kept_on_workers(client):
    return sum(client.run(lambda: len(cluster_worker._kept)).values())


def same_fit(model, expected):
    assert_allclose([r["value"] for r in model.history_], [r["value"] for r in expected.history_], rtol=1e-9)
    assert_allclose(model.components_, expected.components_, rtol=0, atol=1e-9)
    assert_array_equal(model.graph_.i, expected.graph_.i)
    assert_allclose(model.beta_, expected.beta_, rtol=1e-12)


@pytest.mark.parametrize("place", ["files", "array", "files read in every pass"])
def test_a_fit_on_a_cluster_equals_the_fit_in_memory(place, client, files):
    data = da.from_array(X, chunks=(11, 3, 6)) if place == "array" else files
    if place == "files read in every pass":
        data = ClusterData(files, client, in_memory=False)
    expected = aligned(3, **FIT).fit(X, Y)
    model = aligned(3, **FIT).fit(data, Y)
    same_fit(model, expected)
    assert model.n_passes_ == expected.n_passes_
    assert_allclose(model.transform(data), expected.transform(X), atol=1e-10)
    assert_array_equal(model.predict(data), expected.predict(X))
    assert kept_on_workers(client) == 0


@pytest.mark.parametrize("manifold", ["psd", "grassmann"])
def test_other_manifolds_and_metrics(manifold, client, files):
    options = {"n_within": 3, "n_between": 4, "manifold": manifold, "metric": "stein", "max_iter": 8, "tol": 0.0}
    model, expected = (SPDML(3, **options).fit(data, Y) for data in (files, X))
    assert_allclose(model.cost_, expected.cost_, rtol=1e-9)


@pytest.mark.parametrize("metric", ["lem", "aim"])
def test_the_graph_of_shards_equals_that_in_memory(metric, client, files):
    expected = survey_pairs(as_data(X), Y, METRICS[metric], 2, 3)
    found = survey_pairs(as_data(files), Y, METRICS[metric], 2, 3)
    assert_array_equal(found.graph.i, expected.graph.i)
    assert_array_equal(found.graph.j, expected.graph.j)
    assert_allclose(found.mean_distance, expected.mean_distance, rtol=1e-12)


def test_neighbors_found_with_bounds_on_shards_are_those_of_all_pairs(client, files):
    assert bounded(METRICS["aim"], (2, 3), N, measure=False)
    found = as_data(files).neighbors(METRICS["aim"], Y, (2, 3), measure=False, approximate=False)
    wanted = search_blocks(as_data(X).sqdist_blocks(METRICS["aim"]), Y, (2, 3), measure=False)
    for kind in ("within", "between"):
        assert_array_equal(getattr(found, kind).index, getattr(wanted, kind).index)
        assert_allclose(getattr(found, kind).d2, getattr(wanted, kind).d2, rtol=1e-9)


def test_approximate_neighbors_of_shards(client, files):
    pytest.importorskip("faiss")
    model = aligned(3, n_within=3, n_between=4, solver={"search": "approximate"}, max_iter=2, tol=0.0)
    assert_array_equal(model.fit(files, Y).graph_.i, model.fit(X, Y).graph_.i)


def test_without_a_client_a_list_of_files_is_read_here(files):
    assert isinstance(as_data(files), DiskData) == (distributed.client._get_global_client() is None)


def test_two_fits_may_share_samples(client, files):
    samples = ClusterData(files)
    found = {}

    def fit(init):
        found[init] = aligned(3, solver={"init": init}, **FIT).fit(samples, Y)

    threads = [threading.Thread(target=fit, args=(init,)) for init in ("identity", "pca")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for init, model in found.items():
        same_fit(model, aligned(3, solver={"init": init}, **FIT).fit(X, Y))
    assert kept_on_workers(client) == 0


def test_chunks_and_files_without_matrices_are_passed_over(client, files, tmp_path):
    np.save(tmp_path / "none.npy", X[:0])
    expected = aligned(3, **FIT).fit(X, Y)
    for data in ([files[0], tmp_path / "none.npy", *files[1:]], da.from_array(X, chunks=((21, 0, 21), 6, 6))):
        same_fit(aligned(3, **FIT).fit(data, Y), expected)
    with pytest.raises(ValueError, match=r"X has no matrices: its shape is \(0, 6, 6\)"):
        aligned(3).fit(da.zeros((0, 6, 6)), Y)


def test_files_are_found_from_the_folder_of_the_driver(client, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the workers stay where they are
    assert as_data([os.path.basename(path) for path in files]).shape == X.shape


def test_cost_keeps_nothing_on_the_workers(client, files):
    value, _ = (function := aligned(3).cost(files, Y))(np.eye(n, 3))
    assert_allclose(value, aligned(3).cost(X, Y)(np.eye(n, 3))[0], rtol=1e-10)
    assert kept_on_workers(client) == 0
    del function


# ---------------------------------------------------------------------- what a worker does


def test_orders_are_followed_from_whatever_a_worker_has_kept():
    rng = np.random.default_rng(0)
    W, H, S = rng.standard_normal((n, 3)), rng.standard_normal((n, 3)), X[:, :3, :3]
    right = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    V = 2.0 * (W + 0.3 * H) @ right
    moves = (cluster_worker.Step(1, 0.3, right), 2.0)
    order = cluster_worker.Order("fit", 0, 1, W)
    later = cluster_worker.Order("fit", 0, 3, V, moves)
    expected = 2 * np.sum(X @ V @ S, axis=0)

    shard = cluster_worker.Shard(X)

    def gradient(shard):
        return cluster_worker.gradient(shard, later, "double", cluster_worker.pack(S))

    cluster_worker.start(shard, order, "double")
    first, second = cluster_worker.look(shard, order, "double", 1, H)
    assert_allclose(cluster_worker.unpack(first, 3), W.T @ X @ H + H.T @ X @ W, atol=1e-12)
    assert_allclose(cluster_worker.unpack(second, 3), H.T @ X @ H, atol=1e-12)
    assert_allclose(gradient(shard), expected, atol=1e-10)  # moved on
    assert_allclose(gradient(shard), expected, atol=1e-10)  # run once more
    cluster_worker.forget("fit")
    assert_allclose(gradient(shard), expected, atol=1e-10)  # nothing kept
    cluster_worker.start(shard, order, "double")
    cluster_worker.look(shard, order, "double", 2, W)
    assert_allclose(gradient(shard), expected, atol=1e-10)  # the look at H happened elsewhere
    assert cluster_worker._kept
    del shard
    assert not cluster_worker._kept  # gone with the shard, as where a driver dies


def kill_workers(client, count):
    """SIGKILL, as the kernel does to a process that takes too much memory."""
    for pid in list(client.run(os.getpid).values())[:count]:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.kills
@pytest.mark.parametrize("count", [1, 2])
def test_a_fit_survives_the_death_of_workers(count, client, files, monkeypatch):
    """Also of all at once: Dask does not come back to tasks that were pinned to them."""
    monkeypatch.setattr("spdsl.data.cluster.PATIENCE", 0.5)
    expected = aligned(3, **FIT).fit(X, Y)
    killed = []

    def callback(row, W):
        if row["iteration"] == 4:
            kill_workers(client, count)
            killed.append(row["iteration"])

    model = aligned(3, **FIT, callback=callback).fit(files, Y)
    assert killed == [4]
    same_fit(model, expected)
    let_workers_return(client)


# ---------------------------------------------------------------------- what goes wrong


def test_a_bad_matrix_in_a_shard_is_named_by_its_index_among_all(client, tmp_path):
    bad = X.copy()
    bad[30, 0, 0] = -1
    bad[40] = np.nan
    paths = []
    for k, part in enumerate(np.split(bad, [15, 28, 36])):
        np.save(tmp_path / f"{k}.npy", part)
        paths.append(tmp_path / f"{k}.npy")
    for data in (paths, ClusterData(paths, in_memory=False), da.from_array(bad, chunks=(9, -1, -1))):
        with pytest.raises(ValueError, match=r"X\[30\] is not positive definite: smallest eigenvalue"):
            aligned(3).fit(data, Y)
    assert kept_on_workers(client) == 0


def held_on_workers(client):
    """Keys in the memory of the workers, once they have had the time to drop what they may."""
    for _ in range(50):
        if not (count := sum(map(len, client.has_what().values()))):
            return 0
        time.sleep(0.05)
    return count


def test_an_error_that_is_held_holds_no_shards(client, files, tmp_path):
    bad = X.copy()
    bad[30] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    np.save(tmp_path / "small.npy", X[:, :5, :5])
    gc.collect()
    for data, y in (([files[0], tmp_path / "bad.npy"], Y), ([files[0], tmp_path / "small.npy"], Y), (files, Y[:-1])):
        with pytest.raises(ValueError, match=r"\[39\]|5 x 5|41 labels") as held:
            aligned(3).fit(data, y)
        assert held_on_workers(client) == 0, held


def test_data_that_is_no_list_of_files_is_an_error(client):
    for data in ("a.npy", [], X, None):
        with pytest.raises(TypeError, match=r"a Dask array or a list of paths of \.npy files, got"):
            ClusterData(data)


def test_choosing_from_samples_on_a_cluster_says_what_to_do(client, files):
    with pytest.raises(TypeError, match="for a selection or cross-validation pass a Dask array"):
        ClusterData(files)[3:]


def test_a_client_that_is_closed_is_an_error_and_workers_are_freed(client, files):
    other = distributed.Client(client.scheduler.address, set_as_default=False)
    model = aligned(3, callback=lambda row, W: other.close() if row["iteration"] == 2 else None)
    with pytest.raises(ClusterError, match="the cluster went away, or the client was closed"):
        model.fit(ClusterData(files, other), Y)
    assert held_on_workers(client) == 0
    assert kept_on_workers(client) == 0


def test_shards_of_different_sizes_are_an_error(client, files, tmp_path):
    np.save(tmp_path / "small.npy", X[:, :5, :5])
    with pytest.raises(ValueError, match=r"small\.npy holds 5 x 5 matrices and .*part0\.npy 6 x 6"):
        aligned(3).fit([*files, tmp_path / "small.npy"], Y)


def test_a_file_that_is_not_there_is_an_error(client, files):
    os.remove(files[2])
    with pytest.raises(FileNotFoundError, match=r"no such file: .*part2\.npy"):
        aligned(3).fit(files, Y)


def test_a_file_that_shrinks_during_a_fit_is_an_error_and_workers_are_freed(client, files):
    def callback(row, W):
        if row["iteration"] == 2:
            os.truncate(files[1], 1000)

    model = aligned(3, callback=callback)
    with pytest.raises(OSError, match=r"part1\.npy was changed after it was first read"):
        model.fit(ClusterData(files, in_memory=False), Y)
    assert not hasattr(model, "components_")
    assert kept_on_workers(client) == 0


@pytest.mark.kills
@pytest.mark.parametrize("in_memory", [True, False])
def test_a_file_that_is_replaced_while_workers_restart_is_never_mixed_in(in_memory, client, files, monkeypatch):
    """Files of the same size and time, so that only their numbers, or the time of the change, tell."""
    monkeypatch.setattr("spdsl.data.cluster.PATIENCE", 0.5)
    expected = aligned(3, **FIT).fit(X, Y)

    def callback(row, W):
        if row["iteration"] == 3:
            for path in files:
                when = os.stat(path)
                np.save(path, 2 * np.load(path))
                os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))
            kill_workers(client, 1)

    model = aligned(3, **FIT, callback=callback)
    found = ""
    try:
        model.fit(ClusterData(files, in_memory=in_memory), Y)
    except OSError as error:
        found = str(error)
    if found:
        assert re.search(r"part\d\.npy was changed after it was first read", found)
        assert not hasattr(model, "components_")
    else:  # the worker that lives on had a copy in memory of all that was lost
        assert in_memory
        same_fit(model, expected)
    let_workers_return(client)


def test_a_file_that_changes_on_a_worker_is_an_error(client, files):
    def callback(row, W):
        if row["iteration"] == 3:
            when = os.stat(files[0])
            np.save(files[0], 2 * np.load(files[0]))
            os.utime(files[0], ns=(when.st_atime_ns, when.st_mtime_ns))

    with pytest.raises(OSError, match=r"part0\.npy was changed after it was first read"):
        aligned(3, **FIT, callback=callback).fit(ClusterData(files, in_memory=False), Y)


def test_an_error_of_the_callback_frees_the_workers(client, files):
    def callback(row, W):
        if row["iteration"] == 2:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        aligned(3, callback=callback).fit(files, Y)
    assert kept_on_workers(client) == 0


def test_a_device_is_an_error(client, files):
    with pytest.raises(ValueError, match="device='cpu': data on a cluster are processed by its workers"):
        aligned(3, device="cpu").fit(files, Y)


def test_data_without_lineage_that_is_lost_is_an_error(client):
    lost = client.submit(lambda: X, key="gone")
    samples = ClusterData(da.from_array(X, chunks=(21, -1, -1)))
    samples._shards[0] = lost
    client.cancel(lost)
    with pytest.raises(ClusterError, match="lost data that it cannot recompute"):
        samples.check()


ALONE = """
import logging, os, signal, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
import dask
from distributed import Client
from spdsl import SPDSL
from spdsl.data import ClusterError

dask.config.set({"distributed.comm.timeouts.connect": "2s"})

def callback(row, W):
    if row["iteration"] == 2:
        os.kill(scheduler, signal.SIGKILL)

if __name__ == "__main__":
    import subprocess
    process = subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard",
                                "--scheduler-file", sys.argv[2]], stderr=subprocess.DEVNULL)
    worker = subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", sys.argv[2],
                               "--no-dashboard", "--no-nanny", "--nthreads", "1"], stderr=subprocess.DEVNULL)
    scheduler = process.pid
    y = np.arange(42) % 3
    try:
        client = Client(scheduler_file=sys.argv[2], timeout=60)
        client.wait_for_workers(1, timeout=60)
        SPDSL(3, callback=callback, classifier="nn").fit(sys.argv[1].split(","), y)
    except ClusterError as error:
        print("ClusterError:", error, flush=True)
    finally:
        for child in (process, worker):
            child.kill()
            child.wait()
        os._exit(0)
"""


@pytest.mark.kills
def test_a_scheduler_that_goes_away_is_an_error(files, tmp_path):
    command = [sys.executable, "-c", ALONE, ",".join(files), str(tmp_path / "scheduler.json")]
    out = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert "ClusterError: the cluster went away" in out.stdout, out.stderr


def test_a_dask_array_without_a_client_is_an_error():
    gc.collect()
    if distributed.client._get_global_client() is not None:
        pytest.skip("the client of the other tests is still there")
    with pytest.raises(
        ValueError, match=r"needs a dask\.distributed client: start one, e\.g\. Client\(LocalCluster\(\)\)"
    ):
        aligned(3).fit(da.from_array(X), Y)
