"""Models on disk: what is read predicts what was saved, and a bad file is an error and never more than that."""

import json
import os
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import spdsl
from samples import aligned, labeled
from spdsl import (
    CDL,
    LEK,
    LEML,
    SPDML,
    SPDSL,
    KernelSVC,
    LogVectors,
    ModelFileError,
    SPDNearestNeighbor,
    TangentSpaceClassifier,
)
from spdsl.estimators.vector_classifier import LogVectorClassifier
from spdsl.geometry import METRICS
from spdsl.models import ModelVersionWarning, container, save
from spdsl.models.parts import PARTS

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FIXTURES = Path(__file__).parent / "fixtures"
X, Y = labeled(36, 6)
TRAIN, TEST = slice(0, 18), slice(18, None)
SAID = ("predict", "transform", "predict_proba", "decision_function", "sqdist", "similarity", "sparse_codes")


def there_and_back(model, folder):
    model.save(folder / "model.safetensors")
    return spdsl.load(folder / "model.safetensors")


def assert_same(one, other):
    """Equal parameters, and equal to the last bit whatever they are asked."""
    assert type(one) is type(other)
    assert re.sub("at 0x[0-9a-f]+", "", repr(one)) == re.sub("at 0x[0-9a-f]+", "", repr(other))
    assert vars(one).keys() == vars(other).keys()
    for name in SAID:
        assert hasattr(one, name) == hasattr(other, name)
        if hasattr(one, name):
            np.testing.assert_array_equal(getattr(one, name)(X[TEST]), getattr(other, name)(X[TEST]), strict=True)


def reseal(path, edit):
    """Edit header and arrays of a file, and give it a digest that agrees."""
    header, arrays = container.read(path)
    edit(header, arrays)
    container.write(path, header, arrays)


@pytest.mark.parametrize("name", spdsl.METHODS)
def test_every_method_predicts_the_same_after_a_round_trip(name, tmp_path):
    model = spdsl.METHODS[name].factory().fit(X[TRAIN], Y[TRAIN])
    assert_same(model, there_and_back(model, tmp_path))


OTHERS = [
    *(SPDNearestNeighbor(metric, n_neighbors=3) for metric in METRICS),
    CDL("lda"),
    LEK("poly", degree=3, penalty=0.05),
    LEML(3, update="closed-form", max_iter=2, random_state=np.int64(3)),
    LogVectors(),
    KernelSVC("aim"),
    KernelSVC("lem", beta=0.5, C=2.0),
    LogVectorClassifier("lda"),
    LogVectorClassifier("logistic"),
    SPDML(2, metric="stein", classifier="svm", n_between=2),
    SPDML(2, metric="riemann", classifier="lda", manifold="psd", max_iter=5),
    aligned(3, solver={"init": np.eye(6)[:, :3], "rule": "dai-yuan"}, n_within=2, n_between=3),
    aligned(3, metric=METRICS["aim"], max_iter=2, beta=0.25),
    TangentSpaceClassifier("lda", metric={"mean": "logeuclid", "map": "riemann"}),
    *(
        aligned(3, max_iter=3, classifier=classifier)
        for classifier in (
            SVC(class_weight={0: 2.0}),
            LinearSVC(),
            RidgeClassifier(0.1),
            GaussianNB(),
            LogisticRegression(random_state=0),
            make_pipeline(StandardScaler(), SVC(kernel="poly", C=3.0)),
        )
    ),
]


@pytest.mark.parametrize("model", OTHERS, ids=lambda model: repr(model).split("\n")[0][:60])
def test_every_estimator_predicts_the_same_after_a_round_trip(model, tmp_path):
    model = clone(model).fit(X[TRAIN], Y[TRAIN])
    assert_same(model, there_and_back(model, tmp_path))


def test_every_public_estimator_can_be_saved():
    classes = [item for item in vars(spdsl).values() if isinstance(item, type) and issubclass(item, BaseEstimator)]
    classes += [type(method.factory()) for method in spdsl.METHODS.values()]
    assert {cls.__name__ for cls in classes} <= PARTS.keys()
    assert len(set(classes)) >= 10


@pytest.mark.parametrize("head", ["nn", "svm", "lda", "logistic"])
@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 5, 9]),
        np.array([3, 5, 9], dtype=np.int8),
        np.array([1, 2, 2**63], dtype=np.uint64),
        np.array([1.0, 2.0, 3.0], dtype=np.float32),
        np.array(["walk", "läuft", "\ud800 3"]),
        np.array(["walk", "run", "j"], dtype=object),
        np.array(["walk", "run", "j"], dtype="U40"),
        np.array([False, True, True]),
    ],
    ids=lambda labels: f"{labels.dtype}",
)
def test_labels_keep_their_type(labels, head, tmp_path):
    y = labels[Y]
    model = aligned(2, max_iter=2, classifier=head).fit(X[TRAIN], y[TRAIN])
    read = there_and_back(model, tmp_path)
    assert read.classes_.dtype == model.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(read.predict(X[TEST]), model.predict(X[TEST]), strict=True)
    assert list(map(type, read.classes_.tolist())) == list(map(type, model.classes_.tolist()))


def test_a_model_of_tensors_is_read_as_arrays(as_array, tmp_path):
    model = aligned(2, max_iter=3).fit(as_array(X[TRAIN]), Y[TRAIN])
    read = there_and_back(model, tmp_path)
    assert isinstance(read.components_, np.ndarray)
    np.testing.assert_array_equal(read.predict(X[TEST]), model.predict(as_array(X[TEST])))
    np.testing.assert_array_equal(read.predict(as_array(X[TEST])), model.predict(X[TEST]))


def test_arrays_keep_their_order_in_memory(tmp_path):
    # the last digits of products depend on it
    model = LogVectors().fit(X)
    model.c_, model.f_, model.t_ = np.arange(6.0).reshape(2, 3), np.asfortranarray(np.ones((2, 3))), X.mT
    model.gaps_, model.back_, model.none_, model.point_ = X[::2, 1:], X[::-1], np.zeros((0, 3)), np.array(2.5)
    model.row_ = np.lib.stride_tricks.as_strided(np.arange(3.0), (1, 3), (0, 8))
    read = there_and_back(model, tmp_path)
    for name in ("c_", "f_", "t_", "gaps_", "back_", "none_", "point_", "row_"):
        np.testing.assert_array_equal(getattr(read, name), getattr(model, name), strict=True)
    for name in ("c_", "f_", "t_"):
        assert getattr(read, name).strides == getattr(model, name).strides


def test_odd_values_survive(tmp_path):
    model = LogVectors().fit(X)
    model.odd_ = [np.nan, np.inf, -np.inf, np.float32(0.1), np.bool_(True), 2**70, (), {"a": {1: None}}, -0.0, 5e-324]
    read = there_and_back(model, tmp_path)
    assert repr(read.odd_) == repr(model.odd_)


def test_a_pipeline_is_saved_as_a_whole(tmp_path):
    pipeline = make_pipeline(aligned(3, max_iter=3), LogVectors(), LogisticRegression()).fit(X[TRAIN], Y[TRAIN])
    save(pipeline, tmp_path / "pipeline.safetensors")
    np.testing.assert_array_equal(spdsl.load(tmp_path / "pipeline.safetensors").predict(X), pipeline.predict(X))


def test_what_is_read_can_be_fitted_again(tmp_path):
    model = aligned(3, max_iter=3, classifier="svm").fit(X[TRAIN], Y[TRAIN])
    again = there_and_back(model, tmp_path).fit(X[TEST], Y[TEST])
    np.testing.assert_array_equal(again.components_, clone(model).fit(X[TEST], Y[TEST]).components_)


@pytest.mark.parametrize("classifier", ["lda", "logistic", "svm", "nn"])
def test_equal_models_are_equal_files(classifier, tmp_path):
    model = aligned(3, max_iter=3, classifier=classifier).fit(X[TRAIN], Y[TRAIN] == 0)
    model.save(tmp_path / "one.safetensors")
    there_and_back(model, tmp_path).save(tmp_path / "two.safetensors")
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()


# ------------------------------------------------------------------------------------------------ what is not saved


def test_callback_checkpoint_and_device_are_left_out(tmp_path):
    model = aligned(2, max_iter=2, callback=lambda row, W: None, checkpoint=tmp_path / "fit").fit(X, Y)
    read = there_and_back(model.set_params(device="cuda"), tmp_path)
    assert read.callback is read.checkpoint is read.device is None
    header, _ = container.read(tmp_path / "model.safetensors")
    assert sorted(header["left_out"]) == ["SPDSL.callback", "SPDSL.checkpoint", "SPDSL.device"]


def test_a_model_of_matrices_that_are_not_in_memory(tmp_path):
    np.save(tmp_path / "X.npy", X[TRAIN])
    model = aligned(2, max_iter=2).fit(tmp_path / "X.npy", Y[TRAIN])
    assert_same(model, there_and_back(model, tmp_path))
    factors = spdsl.FactoredSPD(np.random.default_rng(0).standard_normal((18, 6, 9)), 0.1)
    model = aligned(2, max_iter=2, classifier="svm").fit(factors, Y[TRAIN])
    np.testing.assert_array_equal(there_and_back(model, tmp_path).predict(factors), model.predict(factors))


def test_a_generator_is_left_out_and_said_to_be(tmp_path):
    model = aligned(2, max_iter=2, solver={"init": "random"}, random_state=np.random.RandomState(0)).fit(X, Y)
    with pytest.warns(UserWarning, match=r"SPDSL.random_state=RandomState.* is not saved.*use an integer"):
        read = there_and_back(model, tmp_path)
    assert read.random_state is None
    np.testing.assert_array_equal(read.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (aligned(2, max_iter=1, classifier=RandomForestClassifier(2)), r"RandomForestClassifier.*sklearn.svm.SVC"),
        (aligned(2, max_iter=1, metric=type("Own", (type(METRICS["power"]),), {})()), "not registered"),
        (aligned(2, max_iter=1, classifier=make_pipeline(GaussianNB(), memory="cache")), "memory is 'cache'"),
        (type("Mine", (SPDSL,), {})(2, max_iter=1), "Mine, which cannot be saved without pickle"),
    ],
    ids=["forest", "metric", "memory", "subclass"],
)
def test_a_model_that_cannot_be_saved_is_an_error_and_leaves_no_file(model, complaint, tmp_path):
    with pytest.raises(ModelFileError, match=complaint):
        model.fit(X, Y).save(tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("model", [aligned(), SPDNearestNeighbor(), CDL(), LogVectors()], ids=repr)
def test_a_model_without_a_fit_cannot_be_saved(model, tmp_path):
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "model.safetensors")


def test_missing_safetensors_is_said(tmp_path, monkeypatch):
    model = LogVectors().fit(X)
    for name in [name for name in sys.modules if name.split(".")[0] == "safetensors"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for step in (lambda: model.save(tmp_path / "m"), lambda: spdsl.load(FIXTURES / "model-format-1.safetensors")):
        with pytest.raises(ImportError, match=r"pip install 'safetensors"):
            step()


# ------------------------------------------------------------------------------------------------ writing


def test_a_full_disk_leaves_the_old_model(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    LogVectors().fit(X).save(path)
    before = path.read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        SPDNearestNeighbor().fit(X, Y).save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
    assert path.read_bytes() == before


def test_only_plain_files_are_replaced(tmp_path):
    model = LogVectors().fit(X)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(OSError, match=name):
            model.save(tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    model.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").is_file()


def test_a_model_file_has_the_usual_permissions(tmp_path):
    LogVectors().fit(X).save(tmp_path / "model.safetensors")
    (tmp_path / "plain").touch()
    assert (tmp_path / "model.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode


# ------------------------------------------------------------------------------------------------ bad files


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_the_bomb_works_when_it_is_unpickled(tmp_path):
    pickle.loads(pickle.dumps(Bomb(tmp_path / "gone off")))
    assert (tmp_path / "gone off").exists()


def bomb_files(folder):
    """Files that hold the bomb in every way one might."""
    bomb = pickle.dumps(Bomb(folder / "gone off"))
    (folder / "pickle").write_bytes(bomb)
    np.savez(folder / "objects.npz", X=np.array([Bomb(folder / "gone off")], dtype=object))
    model = SPDNearestNeighbor().fit(X, Y)
    text = bomb.decode("latin-1")

    def variant(name, edit):
        model.save(folder / name)
        reseal(folder / name, edit)

    variant("metadata", lambda header, arrays: header.update(model=text))
    variant("attribute", lambda header, arrays: header["model"]["fitted"].update(_metric=text))
    variant("kind", lambda header, arrays: header["model"]["fitted"].update(_metric={"pickle": text}))
    variant("bytes", lambda header, arrays: arrays.update(bomb=np.frombuffer(bomb, dtype=np.uint8)))
    variant("object", lambda header, arrays: header["model"]["fitted"].update(_metric={"labels": [text], "dtype": "O"}))
    return sorted(folder.iterdir())


def test_a_malicious_pickle_does_nothing(tmp_path):
    files = bomb_files(tmp_path)
    assert len(files) == 7
    for file in files:
        try:
            model = spdsl.load(file)
        except ModelFileError:
            continue
        assert file.name in ("attribute", "object")  # there it is a text like any other, and no metric
        assert not hasattr(model._metric, "cross")
    assert not (tmp_path / "gone off").exists()


@pytest.mark.parametrize(
    "name",
    ["os.system", "subprocess.Popen", "builtins.eval", "spdsl.SPDSL", "__import__", "sklearn.svm.NuSVC", "", None, []],
)
def test_a_class_that_is_not_listed_is_an_error(name, tmp_path):
    path = tmp_path / "model.safetensors"
    aligned(2, max_iter=1).fit(X, Y).save(path)
    for place in ("model", "classifier_"):

        def edit(header, arrays, place=place):
            node = header["model"]
            (node if place == "model" else node["fitted"][place])["estimator"] = name

        reseal(path, edit)
        with pytest.raises(ModelFileError, match="unknown class"):
            spdsl.load(path)
        aligned(2, max_iter=1).fit(X, Y).save(path)


@pytest.mark.parametrize("name", ["__class__", "__dict__", "__reduce__", "predict", "_check_X", "a b", "metric.x"])
def test_an_attribute_that_is_no_data_is_an_error(name, tmp_path):
    path = tmp_path / "model.safetensors"
    SPDNearestNeighbor().fit(X, Y).save(path)
    reseal(path, lambda header, arrays: header["model"]["fitted"].update({name: 1}))
    with pytest.raises(ModelFileError, match="cannot have a fitted attribute"):
        spdsl.load(path)


UNFIT = {"estimator": "SPDSL", "params": {"checkpoint": "/somewhere"}, "fitted": {}}
EDITS = {
    "a parameter it does not have": (lambda h, a: h["model"]["params"].update(shell="ls"), "no parameter 'shell'"),
    "no labels": (lambda h, a: h["model"]["fitted"].pop("classes_"), "lacks classes_"),
    "an array too many": (lambda h, a: a.update(more=np.ones(2)), "its array 'more' is not used"),
    "an array too few": (lambda h, a: a.pop("SPDNearestNeighbor._labels"), "missing"),
    "a checkpoint": (lambda h, a: h.update(model=UNFIT), "contains a checkpoint, which is never saved"),
    "no model": (lambda h, a: h.pop("model"), "invalid header"),
    "a list": (lambda h, a: h.update(model=[h["model"]]), "no estimator"),
    "no such metric": (lambda h, a: h["model"]["fitted"].update(_metric={"metric": "none"}), "not registered"),
    "wide labels": (lambda h, a: h["model"]["fitted"]["classes_"].update(dtype="<U99999999"), "labels of type"),
    "a structure": (lambda h, a: h["model"]["fitted"]["classes_"].update(dtype="i4,i4"), "invalid type"),
    "a graph of many": (lambda h, a: h["model"]["fitted"].update(g={"graph": 10**9, "same": []}), "has 0 pairs"),
}


@pytest.mark.parametrize("what", EDITS)
def test_a_resealed_edit_is_a_clear_error(what, tmp_path):
    path = tmp_path / "model.safetensors"
    SPDNearestNeighbor().fit(X, Y).save(path)
    edit, complaint = EDITS[what]
    reseal(path, edit)
    with pytest.raises(ModelFileError, match=complaint) as error:
        spdsl.load(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "array", ["support_", "_n_support", "_dual_coef_", "_intercept_", "_probA", "support_vectors_"]
)
def test_a_machine_whose_arrays_do_not_fit_together_is_an_error(array, tmp_path):
    # its compiled code would read outside of them
    path = tmp_path / "model.safetensors"
    KernelSVC().fit(X, Y).save(path)

    def edit(header, arrays):
        name = f"KernelSVC._machine.{array}"
        if array in ("support_", "_n_support"):
            arrays[name] = arrays[name] + 1000
        else:
            arrays[name] = np.zeros([size + 1 for size in arrays[name].shape])

    reseal(path, edit)
    with pytest.raises(ModelFileError, match=rf"SVC in it cannot be used: its {array}"):
        spdsl.load(path)


def test_flipped_and_missing_bytes_are_errors(tmp_path):
    path = tmp_path / "model.safetensors"
    model = SPDNearestNeighbor().fit(X[:4], Y[:4])
    model.save(path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 17):
        bad = bytearray(whole)
        bad[place] ^= 1 << place % 8
        path.write_bytes(bad)
        with pytest.raises(ModelFileError):
            spdsl.load(path)
        path.write_bytes(whole[:place])
        with pytest.raises(ModelFileError):
            spdsl.load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ModelFileError):
        spdsl.load(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234567",
        b"\xff" * 8,
        (1 << 40).to_bytes(8, "little") + b"{}",
        (1 << 62).to_bytes(8, "little") + b"{}" * 100,
        (2).to_bytes(8, "little") + b"{}",
        (100_000).to_bytes(8, "little") + b"[" * 100_000,
        (4).to_bytes(8, "little") + b"\xff\xfe\xfd\xfc",
        (33).to_bytes(8, "little") + b'{"__metadata__":{"spdsl":"[1,2]"}}'[:33],
    ],
    ids=range(9),
)
def test_what_is_no_model_file_is_a_clear_error(content, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"model\.safetensors: "):
        spdsl.load(tmp_path / "model.safetensors")


def test_sizes_that_the_file_does_not_have_are_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "model.safetensors"
    LogVectors().fit(X).save(path)
    raw = path.read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    header["huge"] = {"dtype": "F64", "shape": [1 << 40], "data_offsets": [0, 1 << 43]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(ModelFileError):
        spdsl.load(path)


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing here: no such file"):
        spdsl.load(tmp_path / "nothing here")


# ------------------------------------------------------------------------------------------------ versions


@pytest.mark.parametrize("version", range(container.FORMAT + 1))
def test_every_format_so_far_is_read(version):
    X, _ = labeled(24, 6, seed=3)
    model = spdsl.load(FIXTURES / f"model-format-{version}.safetensors")
    assert isinstance(model, SPDSL)
    assert model.classes_.tolist() == ["jump", "run", "walk"]
    assert model.get_params()["n_components"] == 2
    said = "walk run jump walk run walk walk jump jump walk run jump"
    assert model.predict(X[12:]).tolist() == said.split()


def test_every_older_format_has_a_way_to_the_present_one():
    assert sorted(container.MIGRATIONS) == list(range(container.FORMAT))


def test_a_newer_format_asks_for_an_update(tmp_path):
    path = tmp_path / "model.safetensors"
    LogVectors().fit(X).save(path)
    header, arrays = container.read(path)
    for version, complaint in (
        (container.FORMAT + 1, "update spdsl"),
        (-1, "unknown format"),
        ("1", "unknown format"),
        (None, "unknown format"),
    ):
        container.write(path, {**header, "format": version}, arrays)
        with pytest.raises(ModelFileError, match=complaint):
            spdsl.load(path)


def test_an_old_header_that_lacks_something_is_a_clear_error(tmp_path):
    path = tmp_path / "model.safetensors"
    container.write(path, {"format": 0, "class": "LogVectors"}, {})
    with pytest.raises(ModelFileError, match=r"\(format 0\) lacks 'params'"):
        spdsl.load(path)


def test_parts_of_another_version_are_warned_of(tmp_path):
    path = tmp_path / "model.safetensors"
    KernelSVC().fit(X, Y).save(path)
    reseal(path, lambda header, arrays: header["versions"].update(sklearn="0.24.1"))
    with pytest.warns(ModelVersionWarning, match=r"sklearn 0\.24\.1.*is installed"):
        spdsl.load(path)


@pytest.mark.parametrize("name", ["MDM", "TS+LDA"])
def test_attributes_that_pyriemann_has_renamed_are_found(name, tmp_path):
    path = tmp_path / "model.safetensors"
    model = spdsl.METHODS[name].factory().fit(X[TRAIN], Y[TRAIN])
    model.save(path)

    def older(header, arrays):
        inner = header["model"]["fitted"]["model_" if name == "MDM" else "tangent_"]["fitted"]
        for attribute in [key for key in inner if "metric_" in key]:
            inner[attribute[1:] if attribute[0] == "_" else f"_{attribute}"] = inner.pop(attribute)

    reseal(path, older)
    np.testing.assert_array_equal(spdsl.load(path).predict(X), model.predict(X))


def test_the_page_on_models_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[1] / "docs" / "models.md").read_text()
    exec(compile(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[0], "docs/models.md", "exec"), {})
    assert (tmp_path / "digits.safetensors").exists()
