"""Stacks on disk and as factors, models that are fitted again, and checkpoints, under whatever may happen to them."""

import h5py
import numpy as np
import pytest
from fuzz_plans import GOOD_LABELS, classes_of, labels, parameters, stacks
from fuzz_profile import PROFILE
from fuzz_verdict import judge
from hypothesis import given, settings
from hypothesis import strategies as st
from test_fuzz_learning import ESTIMATORS, LEARNER_GOOD, METRICS, arranged
from test_fuzz_media import damaged

import spdsl
from samples import aligned

pytestmark = pytest.mark.fuzz
HALF = settings(PROFILE, max_examples=max(6, PROFILE.max_examples // 2))
NUMBERS = (0, 1e-3, 1.0, 1e-200, 1e200, -1, float("nan"), "x", None, [0.1], [])


def test_a_model_fitted_again_is_the_new_one_or_the_old_one(counted):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((12, 4, 9))
    X, y = A @ A.mT, np.arange(12) % 3

    @HALF
    @given(st.data())
    def run(data):
        counted()
        kind, good, bad = ESTIMATORS[data.draw(st.sampled_from(list(ESTIMATORS)))]
        model = kind(**({"max_iter": 2} if "max_iter" in kind().get_params() else {})).fit(X, y)
        before, said = model.__dict__.copy(), model.predict(X)
        params = arranged(kind, data.draw(parameters(good, bad)))
        other, y_other = data.draw(stacks(flawed=0.4))[0], data.draw(labels(12))

        def again(other, y_other):
            return [model.set_params(**params).fit(other, y_other)]

        if judge(again, other, y_other) is None:
            model.set_params(**{name: before[name] for name in params})
            assert np.array_equal(model.predict(X), said), "a failed fit has changed the model"

    run()


def test_factors_end_in_valid_numbers_or_a_clear_error(counted):
    @HALF
    @given(st.data())
    def run(data):
        counted()
        rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
        N, d = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 6))
        widths = [data.draw(st.integers(1, 4)) for _ in range(N)] if data.draw(st.booleans()) else [3] * N
        scale = 10.0 ** data.draw(st.sampled_from([0, 0, 0, -6, 6, -75, 75, -150, 150]))
        factors = [scale * rng.standard_normal((d, r)) for r in widths]
        if data.draw(st.integers(0, 4)) == 0:
            odd = st.sampled_from(
                [np.full((d, 1), np.nan), np.ones(d), None, np.ones((d + 1, 1)), 1j * np.ones((d, 1))]
            )
            factors[data.draw(st.integers(0, N - 1))] = data.draw(odd)
        if data.draw(st.integers(0, 9)) == 0:
            factors = data.draw(st.sampled_from([None, 3, [], np.zeros((2, 3, 0)), np.eye(3), "x"]))
        ridge = data.draw(st.sampled_from(NUMBERS)) if data.draw(st.integers(0, 2)) == 0 else 0.1 * scale**2
        mean = rng.standard_normal((N, d)) if data.draw(st.booleans()) else None
        metric = data.draw(st.sampled_from(METRICS))
        made = judge(lambda F, r, m: [spdsl.FactoredSPD(F, r, m)], factors, ridge, mean)
        if made is None:
            return
        X = made[0]
        d2 = judge(lambda: spdsl.pairwise_sqdist(X, metric=metric))
        assert d2 is None or np.all(d2 >= 0)
        params = arranged(spdsl.SPDSL, data.draw(parameters(LEARNER_GOOD, {})))
        y = classes_of(len(X), data.draw(st.sampled_from(GOOD_LABELS)))
        judge(lambda: aligned(**params).fit(X, y).transform(X))

    run()


def test_stacks_on_disk_are_those_in_memory_or_a_clear_error(counted, tmp_path):
    @HALF
    @given(st.data())
    def run(data):
        counted()
        X = data.draw(stacks(max_size=5))[0]
        try:
            array = np.asarray(X)
            np.save(tmp_path / "a.npy", array, allow_pickle=False)
        except ValueError:
            return  # what NumPy cannot save cannot be read
        y = data.draw(labels(len(array) if array.ndim else 1))
        params = arranged(spdsl.SPDSL, data.draw(parameters(LEARNER_GOOD, {}))) | {"max_iter": 2}
        place = data.draw(st.sampled_from(["path", "paths", "map", "reversed", "hdf5", "cut"]))
        if place == "cut":
            whole = (tmp_path / "a.npy").read_bytes()
            (tmp_path / "a.npy").write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
        with h5py.File(tmp_path / "a.h5", "w") as file:
            if place == "hdf5" and array.dtype.kind in "biuf" and array.dtype.itemsize <= 8:
                file["X"] = array

            def there():
                if place in ("map", "reversed"):
                    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
                    return mapped if place == "map" or not mapped.ndim else mapped[::-1]
                path = tmp_path / "a.npy"
                return {"path": path, "cut": path, "paths": [str(path)] * 2, "hdf5": file.get("X")}[place]

            if place in ("map", "reversed") and not array.size:
                return
            X_there = there()
            y_there = np.concatenate([y, y]) if place == "paths" and isinstance(y, np.ndarray) and y.ndim == 1 else y
            found = judge(lambda y: aligned(**params).fit(X_there, y).transform(X_there), y_there)
        if place in ("path", "map") and found is not None:
            held = judge(lambda X, y: aligned(**params).fit(X, y).transform(X), array, y)
            assert held is not None, "a stack was taken from disk that is refused in memory"

    run()


def test_a_damaged_checkpoint_is_the_checkpoint_or_refused(counted, tmp_path):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((12, 6, 9))
    X, y, path = A @ A.mT, np.arange(12) % 3, tmp_path / "state"
    model = aligned(2, tol=0.0, max_iter=14, checkpoint=path)

    def stop(row, W):
        return row["iteration"] == 12

    model.set_params(callback=stop).fit(X, y)
    whole = path.read_bytes()
    model.set_params(callback=None)
    expected = model.fit(X, y).cost_

    @HALF
    @given(damaged(whole))
    def run(content):
        counted()
        path.write_bytes(content)
        cost = judge(lambda: model.fit(X, y).cost_)
        assert cost is None or cost == expected
        assert {file.name for file in tmp_path.iterdir()} <= {"state"}

    run()
