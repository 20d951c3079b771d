"""What the random cases found, each as a case of its own: it must end in the clear error it ends in now."""

import io
import warnings

import h5py
import numpy as np
import pytest
import scipy.io

import spdsl
from samples import aligned, labeled
from spdsl import KernelSVC, features
from spdsl.data import as_data
from spdsl.datasets import load_spd, spd
from spdsl.datasets.extraction import restore_parts
from spdsl.estimators import nearest
from spdsl.estimators.vector_classifier import LogVectorClassifier
from spdsl.evaluation.results import Cell, Results, cell_from_dict, cell_to_dict
from spdsl.geometry import get_metric
from spdsl.learning.graph import survey_pairs

X, Y = labeled(12)
SAME = np.repeat(X[:1], 6, axis=0)
ALMOST = SAME * (1 + 1e-15 * np.arange(6))[:, None, None]
TURN = np.arange(6) % 2
SIGNAL = np.random.default_rng(0).standard_normal((2, 3, 20))


def stretched():
    """A learned metric that stretches logarithms by ten."""
    model = spdsl.LEML(random_state=0).fit(X, Y)
    model.components_ = 10 * model.components_
    return model


REFUSED = {
    "no classifier": (lambda: LogVectorClassifier(None).fit(X, Y), "classifier must be"),
    "head of distances": (lambda: LogVectorClassifier("svm").fit(X, Y), "needs distances"),
    "one class": (lambda: LogVectorClassifier().fit(X, np.zeros(12)), "at least 2 classes"),
    "singletons": (lambda: LogVectorClassifier().fit(X, np.arange(12)), "one sample"),
    "equal vectors": (lambda: LogVectorClassifier().fit(SAME, TURN), "identical"),
    "exponentials": (lambda: stretched().transform(1e100 * X), "mean trace"),
    "C of zero": (lambda: KernelSVC(C=0).fit(X, Y), "C must be"),
    "equal matrices": (lambda: KernelSVC().fit(SAME, TURN), "identical"),
    "unknown tangent metric": (lambda: spdsl.TangentSpaceClassifier(metric="nope").fit(X, Y), "nope"),
    "no tangent metric": (lambda: spdsl.TangentSpaceClassifier(metric=None).fit(X, Y), "metric must be"),
    "unknown classifier": (lambda: spdsl.TangentSpaceClassifier("nope").fit(X, Y), "'lda' or 'logistic'"),
    "tangent singletons": (lambda: spdsl.TangentSpaceClassifier().fit(X, np.arange(12)), "failed: "),
    "unknown mean": (lambda: spdsl.MDM(metric="nope").fit(X, Y), "nope"),
    "number as mean": (lambda: spdsl.MDM(metric=3).fit(X, Y), "metric must be"),
    "pairs of one": (
        lambda: survey_pairs(as_data(X[:1]), np.zeros(1, int), get_metric("lem"), 1, 1),
        "at least 2 matrices",
    ),
    "halves of singletons": (lambda: spdsl.compare(X, np.arange(12), ["NN-LEM"], verbose=False), "single sample"),
    "no splits": (lambda: spdsl.compare(X, Y, ["NN-LEM"], splits=[], verbose=False), "splits is empty"),
    "no folds": (lambda: spdsl.compare(X, Y, ["NN-LEM"], n_folds="x", verbose=False), "n_folds must be"),
    "empty range": (lambda: spdsl.tune(spdsl.RSR(), {"penalty": []}, X, Y), "is empty"),
    "unhashable labels": (lambda: spdsl.tune(spdsl.RSR(), {"penalty": [1, 2]}, X, [{1}] * 12), "label"),
    "too few components": (lambda: spdsl.CDL(extra_components=-100).fit(X, Y), "extra_components=-100"),
    "equal to rounding": (lambda: spdsl.CDL().fit(ALMOST, TURN), "identical"),
    "huge ridge": (lambda: spdsl.regularize(1e300 * X, 1e300), "smaller ridge"),
    "complex tracks": (lambda: features.joint_covariance(np.ones((4, 2, 3)) * 1j), "real numbers"),
    "NaN as ridge": (lambda: features.signal_covariance(SIGNAL, ridge=float("nan")), "ridge must be"),
    "negative ridge": (lambda: features.signal_covariance(SIGNAL, ridge=-1), "ridge must be"),
    "huge signal": (lambda: features.signal_covariance(SIGNAL * 1e200), "rescale"),
    "half a sample": (lambda: features.cut_windows(SIGNAL[0], 2.5), "length must be"),
    "ragged rows": (lambda: features.set_covariance([[1, 2], [3]]), "not an array"),
    "records": (lambda: spdsl.check_spd(np.rec.array(np.zeros((2, 3, 3), [("a", float)]))), "must hold numbers"),
    "denormals": (lambda: aligned(2).fit(1e-310 * X, Y), "mean trace"),
    "beyond squares": (lambda: spdsl.pairwise_sqdist(1e-200 * X, metric="euclid"), "mean trace"),
    "beyond float32": (lambda: aligned(2, precision="mixed").fit(1e60 * X, Y), r"range 1e-28 to 1e\+28"),
    "unknown precision": (lambda: spdsl.check_spd(X, precision="half"), "precision must be"),
    "embedding of huge": (lambda: spdsl.SPDML(2, metric="euclid").fit(1e100 * X, Y), "depends on the scale"),
    "embedding of tiny": (lambda: spdsl.SPDML(2, metric="wasserstein").fit(1e-100 * X, Y), "depends on the scale"),
    "width beyond numbers": (lambda: aligned(2, beta=1e308).fit(X, Y), "<= 1e\\+300"),
    "scale of no width": (
        lambda: aligned(2, metric="euclid", beta_scale=1e300).fit(1e-100 * X, Y),
        "beta is out of range",
    ),
    "eta of nothing": (lambda: spdsl.LEML(eta=1e-320).fit(X, Y), "eta must be"),
    "zeta beyond": (lambda: spdsl.LEML(zeta=1e308).fit(X, Y), "zeta must be"),
    "negative seed": (lambda: spdsl.LEML(random_state=-1).fit(X, Y), "random_state must be"),
    "seed of splits": (lambda: spdsl.compare(X, Y, ["NN-LEM"], random_state=2**40, verbose=False), "random_state must"),
    "seed of folds": (lambda: spdsl.tune(spdsl.RSR(), {"penalty": [1, 2]}, X, Y, random_state=-1), "random_state must"),
    "no processes": (lambda: spdsl.compare(X, Y, ["NN-LEM"], n_jobs=0, verbose=False), "n_jobs=0"),
    "words of processes": (lambda: spdsl.compare(X, Y, ["NN-LEM"], n_jobs="3", verbose=False), "n_jobs must be"),
    "no grid": (lambda: spdsl.tune(spdsl.RSR(), None, X, Y), "grid must map"),
    "unknown parameter": (lambda: spdsl.tune(spdsl.RSR(), {"nope": [1, 2]}, X, Y), "no parameter 'nope'"),
    "set of values": (lambda: spdsl.tune(spdsl.RSR(), {"penalty": {1, 2}}, X, Y), "must be a list"),
    "huge factors": (lambda: spdsl.pairwise_sqdist(spdsl.FactoredSPD(1e150 * SIGNAL, 1e300)), "common scale"),
    "bytes as labels": (lambda: spdsl.CDL().fit(X, np.array(["a", "b", "c"])[Y].astype("S1")), "y holds bytes"),
    "nested results": (lambda: Results.from_json('{"a":' * 10**5), "not results"),
    "infinite pixel": (lambda: features.region_covariance(np.full((5, 5), np.inf)), "infinity"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_is_refused_with_a_clear_error(case):
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_shrinkage_of_tiny_numbers_is_that_of_the_numbers_scaled():
    rows = np.random.default_rng(0).standard_normal((9, 3))
    tiny = features.set_covariance(1e-140 * rows, shrinkage="oas")
    np.testing.assert_allclose(tiny * 1e280, features.set_covariance(rows, shrinkage="oas"), rtol=1e-12)


def npz_with_header(header):
    """An archive whose array announces what `header` says."""
    import zipfile

    text = repr(header).encode().ljust(117) + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"\0" * 64
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("X.npy", content)
    return buffer.getvalue()


def test_a_header_takes_no_memory_that_the_file_does_not_fill(tmp_path):
    path = tmp_path / "bomb.npz"
    path.write_bytes(npz_with_header({"descr": "<f8", "fortran_order": False, "shape": (10**6, 400, 400)}))
    with pytest.raises(ValueError, match="announces"):
        load_spd(path)
    path.write_bytes(npz_with_header({"descr": "|O", "fortran_order": False, "shape": (8,)}))
    with pytest.raises(ValueError, match="Python objects"):
        load_spd(path)


def test_a_damaged_archive_leaves_no_file_open(tmp_path):
    path = tmp_path / "cut.npz"
    np.savez(path, X=X)
    path.write_bytes(path.read_bytes()[:-40])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="not a readable NumPy file"):
            load_spd(path)


def test_a_reader_that_crashes_costs_a_child_process_alone(tmp_path, monkeypatch):
    crash = tmp_path / "reader.py"
    crash.write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"X": X.transpose(1, 2, 0)})
    assert load_spd(path)[0].shape == X.shape
    monkeypatch.setattr(spd, "READER", crash)
    with pytest.raises(ValueError, match="damaged"):
        load_spd(path)


def test_cells_of_strings_in_matlab_files_are_labels(tmp_path):
    path = tmp_path / "a.mat"
    names = np.array([f"class {k}" for k in Y], dtype=object)
    scipy.io.savemat(path, {"X": X.transpose(1, 2, 0), "labels": names})
    np.testing.assert_array_equal(load_spd(path)[1], names.astype(str))


def test_what_a_newcomer_stumbled_over_is_said(tmp_path):
    with pytest.raises(ValueError, match="must be a list of values"):
        spdsl.tune(spdsl.CDL(), {"extra_components": 1}, X, Y)
    with pytest.raises(ValueError, match="unfitted estimator"):
        spdsl.tune(spdsl.METHODS["CDL"], {}, X, Y)
    with pytest.raises(ValueError, match="a folder, not a model file"):
        spdsl.load(tmp_path)
    with pytest.raises(ValueError, match="every label is 0"):
        spdsl.CDL().fit(X, 0 * Y)
    np.savez(tmp_path / "complex.npz", X=X.astype(complex))
    with pytest.raises(ValueError, match="of complex128"):
        load_spd(tmp_path / "complex.npz")


def test_a_path_that_is_none_is_said():
    for path in (None, 3, b"x", []):
        with pytest.raises(TypeError, match="path must be"):
            spdsl.load(path)
        with pytest.raises(TypeError, match="path must be"):
            spdsl.CDL().fit(X, Y).save(path)


def test_tuning_takes_matrices_in_a_list():
    grid = {"penalty": [0.1, 0.01]}
    assert spdsl.tune(spdsl.RSR(), grid, list(X), Y) == spdsl.tune(spdsl.RSR(), grid, X, Y)


@pytest.mark.parametrize(
    "model",
    [
        aligned(2, max_iter=2),
        spdsl.SPDNearestNeighbor(),
        spdsl.CDL(),
        spdsl.RSR(),
        spdsl.LEML(random_state=0),
        spdsl.MDM(),
        KernelSVC(),
        LogVectorClassifier("logistic"),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_that_fails_leaves_the_older_one_as_it_was(model):
    labels = model.fit(X, Y).predict(X)
    others = np.array(["one", "two", "three"])[Y]
    cases = [(-X[:, :3, :3], others), (X[:, :3, :3], None), (X[:, :3, :3], others[:5])]
    if isinstance(model, spdsl.SPDSL | spdsl.CDL | spdsl.LEML | KernelSVC | LogVectorClassifier):
        cases.append((np.repeat(np.eye(3)[None], 12, axis=0), others))  # the others can work with equal matrices
    for bad, y in cases:
        before = dict(vars(model))
        with pytest.raises(ValueError, match=r"X\[0\]|identical|threshold|labels"):
            model.fit(bad, y)
        assert {name: id(value) for name, value in vars(model).items()} == {k: id(v) for k, v in before.items()}
        np.testing.assert_array_equal(model.predict(X), labels)


def test_a_forged_directory_of_an_archive_takes_no_memory(tmp_path):
    raw = bytearray(npz_with_header({"descr": "<f8", "fortran_order": False, "shape": (1000, 600, 600)}))
    at = raw.rfind(b"PK\x01\x02") + 24
    raw[at : at + 4] = (3 * 10**9).to_bytes(4, "little")
    (tmp_path / "forged.npz").write_bytes(raw)
    with pytest.raises(ValueError, match=r"announces 3000000000 bytes"):
        load_spd(tmp_path / "forged.npz")


def test_arrays_that_lie_in_other_files_are_not_read(tmp_path):
    path = tmp_path / "a.h5"
    (tmp_path / "secret").write_bytes(np.eye(4).tobytes() * 2)
    with h5py.File(path, "w") as file:
        file.create_dataset("X", (2, 4, 4), dtype="f8", external=[(str(tmp_path / "secret"), 0, 256)])
    with pytest.raises(ValueError, match="other files"):
        load_spd(path)


def test_a_variable_may_have_any_name(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"file": X.transpose(1, 2, 0)})
    np.testing.assert_array_equal(load_spd(tmp_path / "a.mat")[0], X)


def test_names_in_a_cache_do_not_lead_out_of_it(tmp_path):
    store = tmp_path / "cache" / "store"
    for name in ("../../escaped.npz", str(tmp_path / "escaped.npz"), "0" * 24 + ".npz/../../../escaped.npz"):
        restore_parts(store, X[:1], [name], [1], [""])
    assert not (tmp_path / "escaped.npz").exists()
    restore_parts(store, X[:1], ["0" * 24 + ".npz"], [1], [""])
    assert [path.name for path in store.iterdir()] == ["0" * 24 + ".npz"]


@pytest.mark.parametrize("change", [{"accuracy": "x"}, {"method": 3}, {"params": None}, {"warnings": 3}, {"other": 1}])
def test_an_edited_cell_is_no_cell(change):
    row = cell_to_dict(Cell("NN-LEM", 0, 0.5, {"x": 1}, 0.1, 0.1, 0.1))
    assert cell_from_dict(row).params == {"x": 1}
    with pytest.raises(TypeError):
        cell_from_dict(row | change)


@pytest.mark.parametrize("objective", ["alignment", "pairs", "stochastic-neighbors"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_width_beyond_all_distances_makes_similarities_zero(objective):
    model = aligned(2, metric="cholesky", beta=1e300, objective=objective).fit(1e12 * X, Y)
    assert np.all(np.isfinite(model.components_))
    assert np.all(np.isfinite(model.similarity(1e12 * X)))


def test_a_matrix_far_from_all_others_has_probabilities():
    train = np.array([[[273.75234309]], [[229.74974395]]])
    P = LogVectorClassifier("logistic").fit(train, [0, 1]).predict_proba(np.array([[[1e-150]]]))
    np.testing.assert_allclose(P, [[1 / 6, 5 / 6]])


@pytest.mark.parametrize("take", [spdsl.check_spd, lambda X: spdsl.regularize(X, 0.1)])
def test_an_infinity_of_low_precision_is_named(take):
    with pytest.raises(ValueError, match=r"X\[0\] contains NaN or infinity"):
        take(np.full((1, 1, 1), np.inf, np.float32))


@pytest.mark.parametrize("metric", ["aim", "stein", "lem"])
def test_a_width_beyond_all_steps_is_named(metric):
    """The nearest of every sample is of another class."""
    size = np.exp([0.0, 0.1, 4.0, 4.1])
    train = np.stack([np.diag([a, 1.0, 1.0]) for a in size])
    with pytest.raises(ValueError, match=r"its derivative is as large as .* use a smaller beta"):
        spdsl.SPDSL(2, metric=metric, beta=1e100).fit(train, [0, 1, 1, 0])


def test_a_trial_beyond_all_numbers_is_one_step_too_long():
    rng = np.random.default_rng(1)
    factors = [1e-75 * rng.standard_normal((3, 3)) for _ in range(5)]
    model = aligned().fit(spdsl.FactoredSPD(factors, 1e-151), [0, 1, 2, 0, 1])
    assert np.isfinite(model.cost_)


def test_a_kernel_that_is_not_positive_definite_has_one_answer_in_any_order_of_the_samples():
    """The machine stops at one of several points there; probabilities were 0.09 apart."""
    train, y = labeled(21, 4, 3, seed=30)
    unseen, _ = labeled(9, 4, 3, seed=31)
    forth = KernelSVC("jeffreys").fit(train, y).predict_proba(unseen)
    back = KernelSVC("jeffreys").fit(train[::-1], y[::-1]).predict_proba(unseen)
    np.testing.assert_allclose(back, forth, atol=1e-10)


@pytest.mark.parametrize("kernel", ["poly", "exp", "gauss"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_codes_do_not_depend_on_the_company_of_a_sample(kernel):
    """Log-vectors in six dimensions and 27 atoms: many codes are minimizers, and codes were up to 3 percent apart."""
    train, y = labeled(27, 3)
    unseen, _ = labeled(40, 3, seed=1)
    model = spdsl.LEK(kernel, degree=1).fit(train, y)
    together = model.sparse_codes(unseen)
    for few in ([7], [3, 3, 9], range(20, 40)):
        np.testing.assert_allclose(model.sparse_codes(unseen[few]), together[few], atol=1e-9)


@pytest.mark.parametrize(
    "model",
    [KernelSVC("lem"), KernelSVC("jeffreys"), LogVectorClassifier("logistic"), spdsl.SPDNearestNeighbor("stein")],
    ids=repr,
)
def test_samples_and_their_mirror_images_are_calibrated_alike_in_any_order(model, monkeypatch):
    """Their keys are equal up to rounding, which dealt them out to the folds; probabilities were up to 0.3 apart."""
    monkeypatch.setattr(nearest, "ANCHORS", 20)
    half, y = labeled(24, 4)
    mirror = [1, 0, 3, 2]
    train, y = np.concatenate([half, half[:, mirror][:, :, mirror]]), np.tile(y, 2)
    unseen, _ = labeled(9, 4, seed=50)
    plain = model.fit(train, y).predict_proba(unseen)
    for seed in range(4):
        p = np.random.default_rng(seed).permutation(48)
        np.testing.assert_allclose(model.fit(train[p], y[p]).predict_proba(unseen), plain, atol=1e-4)
