"""Methods that hold a number for every pair of matrices say so before the work where these do not fit into memory."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from spdsl import CDL, LEK, LEML, RSR, KernelSVC
from spdsl.backend import memory

METHODS = [CDL(), CDL("lda"), RSR(), LEK(), LEML(max_pairs=50), KernelSVC()]


@pytest.fixture(scope="module")
def crowd():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((100_000, 5, 8))
    return A @ A.mT, np.arange(len(A)) % 3


@pytest.mark.parametrize("model", METHODS, ids=repr)
def test_what_cannot_fit_is_said_before_the_work(model, crowd):
    with pytest.raises(
        MemoryError,
        match=rf"{type(model).__name__} on 100000 matrices .* takes about \d+ GB, where .* free; fit it to a part",
    ):
        model.fit(*crowd)
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("model", METHODS, ids=repr)
def test_what_is_said_is_what_it_takes(model, crowd, monkeypatch):
    """More than the arrays that NumPy holds at the peak, and not by much."""
    import tracemalloc

    X, y = crowd[0][:900], crowd[1][:900]
    asked = []
    monkeypatch.setattr(memory, "check_room", lambda needed, *_: asked.append(needed))
    with np.errstate(all="ignore"):
        tracemalloc.start()
        model.set_params(**({"max_iter": 1} if "max_iter" in model.get_params() else {})).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert 0.9 * peak < asked[0] < 2.2 * peak


@pytest.mark.parametrize("model", [CDL(), CDL("lda"), RSR(), LEK("poly")], ids=repr)
def test_answers_in_blocks_are_the_same(model, small, monkeypatch):
    X, y = small
    whole = model.fit(X, y).predict(X)
    monkeypatch.setattr("spdsl.baselines.pairwise.ANSWER_BYTES", 8 * len(X) * 7)
    assert_array_equal(model.predict(X), whole)


def test_free_memory_is_within_the_limit_of_a_container(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    (tmp_path / "meminfo").write_text("MemTotal: 900 kB\nMemAvailable:   300 kB\n")
    assert memory.free_on_host() == 300 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("90000\n")
    (tmp_path / "memory.stat").write_text("anon 70000\ninactive_file 15000\nactive_file 5000\n")
    assert memory.free_on_host() == 300 * 1024
    (tmp_path / "memory.max").write_text("100000\n")
    assert memory.free_on_host() == 30000
