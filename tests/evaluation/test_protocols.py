"""Which matrices, which splits, which sizes: the paper's datasets, the embedded one, a file of one's own."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samples import labeled
from spdsl.evaluation.protocols import BENCHMARKS, PUBLISHED, load_experiment
from spdsl.features.errors import FeatureError


def per_class(y: np.ndarray, rows: np.ndarray) -> set[int]:
    """How many of each class are among these rows."""
    return set(np.unique(y[rows], return_counts=True)[1].tolist())


def whole_dataset(name: str, folder: Path, n: int = 2) -> Path:
    """A file with as many matrices and classes as the dataset has."""
    study = BENCHMARKS[name]
    y = np.sort(np.arange(study.samples) % study.classes)
    X = np.random.default_rng(0).uniform(1, 2, (len(y), 1, 1)) * np.eye(n)
    np.savez(folder / f"{name}.npz", X=X, y=y)
    return folder / f"{name}.npz"


# --------------------------------------------------------------------------------------------------- named datasets


@pytest.mark.parametrize(
    ("name", "m", "train", "test"),
    [("ytc", 40, {3}, {6}), ("uiuc", 40, {6}, {6}), ("hdm05", 30, {8, 9}, {9})],
)
def test_the_protocol_of_the_paper(tmp_path, name, m, train, test):
    path = whole_dataset(name, tmp_path)
    experiment = load_experiment(name, path, n_components=1)
    assert BENCHMARKS[name].n_components == m
    assert experiment.tuning == "each"
    assert len(experiment.splits) == 10
    assert len({tuple(rows) for rows, _ in experiment.splits}) == 10
    for gallery, probe in experiment.splits:
        assert not set(gallery) & set(probe)
        assert per_class(experiment.y, gallery) == train
        assert per_class(experiment.y, probe) == test
    assert experiment.published == PUBLISHED[name]
    again = load_experiment(name, path, n_components=1)
    for first, second in zip(experiment.splits, again.splits, strict=True):
        np.testing.assert_array_equal(np.concatenate(first), np.concatenate(second))


def test_the_size_of_the_paper_is_taken_and_one_that_does_not_fit_is_refused(tmp_path):
    assert load_experiment("uiuc", whole_dataset("uiuc", tmp_path, n=41)).n_components == 40
    with pytest.raises(ValueError, match=r"40 components are out of range: .* 1\.\.39; choose with --components"):
        load_experiment("uiuc", whole_dataset("uiuc", tmp_path, n=40))


def test_digits_need_no_data_and_are_tuned_on_the_first_draw():
    experiment = load_experiment()
    assert (experiment.name, experiment.n_components, experiment.tuning) == ("digits", 20, "first")
    assert experiment.X.shape == (BENCHMARKS["digits"].samples, 65, 65)
    for gallery, probe in experiment.splits:
        assert per_class(experiment.y, gallery) == {2}
        assert per_class(experiment.y, probe) == {20}
    assert len(experiment.splits) == 10
    assert experiment.published == {}
    fewer = load_experiment("digits", draws=3)
    np.testing.assert_array_equal(fewer.splits[2][0], experiment.splits[2][0])


def test_a_part_of_a_dataset_is_refused_unless_asked_for_and_has_no_published_figures(tmp_path):
    X, y = labeled(120, 6, 6)
    np.savez(tmp_path / "half.npz", X=X, y=y)
    with pytest.raises(FeatureError, match=r"120 usable samples of 6 classes found where UIUC materials has 216 of 18"):
        load_experiment("uiuc", tmp_path / "half.npz", n_components=2)
    experiment = load_experiment("uiuc", tmp_path / "half.npz", n_components=2, partial=True)
    assert experiment.published == {}


def test_a_class_smaller_than_the_protocol_is_named(tmp_path):
    X, y = labeled(27, 6, 3)
    y = np.where(np.arange(27) == 26, "a", np.array(["a", "b", "c"])[y])
    np.savez(tmp_path / "part.npz", X=X, y=y)
    with pytest.raises(ValueError, match="class 'c' has 8 samples, the protocol takes 9"):
        load_experiment("ytc", tmp_path / "part.npz", n_components=2, partial=True)


@pytest.mark.parametrize(
    ("dataset", "data", "message"),
    [
        ("mnist", None, "unknown dataset 'mnist'; choose among digits, ytc, uiuc, hdm05"),
        ("ytc", None, "'ytc' is not embedded: give the folder that holds YouTube Celebrities with --data FOLDER"),
        ("digits", ".", "'digits' is embedded and takes no data"),
        ("ytc", "nowhere", "nowhere: no such folder; YouTube Celebrities needs its video clips"),
        ("uiuc", ".", r"0 files of the kinds .*; the UIUC material dataset needs a folder per subcategory"),
        ("hdm05", ".", "HDM05 needs its cut motion clips"),
        (None, "nowhere.npz", "nowhere.npz: no such file"),
        (None, ".", r"a folder; name the dataset in it \(ytc, uiuc, hdm05\)"),
    ],
)
def test_a_source_that_is_not_there_or_does_not_fit_is_said(tmp_path, monkeypatch, dataset, data, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPDSL_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match=message):
        load_experiment(dataset, data)


def test_a_folder_of_the_real_hdm05_that_is_half_there(data_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SPDSL_CACHE", str(tmp_path))
    with pytest.raises(FeatureError, match=r"22 usable samples of 11 classes .* 2337 of 130; .* --partial"):
        load_experiment("hdm05", data_folder / "hdm05_raw")
    experiment = load_experiment("hdm05", data_folder / "hdm05_raw", partial=True)
    assert experiment.X.shape == (22, 93, 93)
    assert experiment.n_components == 30


# ---------------------------------------------------------------------------------------------------- one's own stack

X, y = labeled(30, 6, 3)
MASK = np.zeros((2, 30), bool)
MASK[0, ::2] = MASK[1, :12] = True


def save(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "mine.npz", **({"X": X, "y": y} | arrays))
    return folder / "mine.npz"


def test_a_file_without_splits_is_halved_ten_times(tmp_path):
    experiment = load_experiment(data=save(tmp_path))
    assert (experiment.name, experiment.n_components, experiment.tuning) == ("mine", 2, "each")
    assert len(experiment.splits) == 10
    for train, test in experiment.splits:
        assert per_class(y, train) == per_class(y, test) == {5}
        assert len(np.union1d(train, test)) == 30
    assert len(load_experiment(data=save(tmp_path), draws=4).splits) == 4


def test_a_file_with_masks_is_split_by_them(tmp_path):
    experiment = load_experiment(data=save(tmp_path, train=MASK, test=~MASK))
    assert len(experiment.splits) == 2
    for k, (train, test) in enumerate(experiment.splits):
        np.testing.assert_array_equal(train, np.flatnonzero(MASK[k]))
        np.testing.assert_array_equal(test, np.flatnonzero(~MASK[k]))
    assert "2 splits given in the file" in experiment.how
    assert len(load_experiment(data=save(tmp_path, train=MASK, test=~MASK), draws=1).splits) == 1
    one = load_experiment(data=save(tmp_path, train=MASK[0], test=~MASK[0]))
    assert len(one.splits) == 1
    assert one.how == "1 split given in the file"


def test_groups_stay_on_one_side(tmp_path):
    groups = np.arange(30) // 3
    experiment = load_experiment(data=save(tmp_path, groups=groups))
    assert len({tuple(train) for train, _ in experiment.splits}) > 1
    for train, test in experiment.splits:
        assert not set(groups[train]) & set(groups[test])


def test_names_as_labels_other_arrays_and_other_kinds_of_file(tmp_path):
    names = np.array(["a", "b", "c"])[y]
    experiment = load_experiment(data=save(tmp_path, y=names, other=X, more=np.arange(5)))
    np.testing.assert_array_equal(experiment.y, names)
    scipy_io = pytest.importorskip("scipy.io")
    scipy_io.savemat(tmp_path / "mine.mat", {"X": X.transpose(1, 2, 0), "y": y})
    np.testing.assert_allclose(load_experiment(data=tmp_path / "mine.mat").X, X)


def test_a_class_that_is_tested_but_not_learned_is_warned_of(tmp_path):
    with pytest.warns(UserWarning, match="class '2' is tested in draw 1 but not in its training part"):
        load_experiment(data=save(tmp_path, train=MASK[0] & (y != 2), test=~MASK[0]))


NOT_DEFINITE, NAN, LOPSIDED = X.copy(), X.copy(), X.copy()
NOT_DEFINITE[7] = np.diag([1, 1, 1, 1, 1, -1e-3])
NAN[3, 0, 0] = np.nan
LOPSIDED[3, 0, 1] += 1


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": y[:-1]}, "has shape .29,., the stack 30 matrices"),
        ({"y": 0 * y}, "all labels are '0'; there must be two classes"),
        ({"y": y + 0.5}, "mine.npz: Unknown label type: continuous"),
        ({"y": np.where(y, y, np.nan)}, r"mine.npz: y\[0\] is nan"),
        ({"y": np.where(np.arange(30), y, 9)}, "class '9' has a single sample"),
        ({"y": y.astype(object)}, "it holds Python objects"),
        ({"y": np.where(np.arange(30) == 4, "", y.astype(str))}, r"mine.npz: y\[4\] is empty, which is not a label"),
        ({"X": X[:, :, :5]}, "no stack of real square matrices; the file holds"),
        ({"X": X[:0], "y": y[:0]}, "no matrices"),
        ({"X": np.ones((30, 1, 1))}, "1 x 1 cannot be reduced"),
        ({"X": NAN}, "matrix 3 holds NaN"),
        ({"X": LOPSIDED}, "matrix 3 is not symmetric"),
        ({"X": NOT_DEFINITE}, r"X\[7\] is not positive definite.*on the command line: --ridge 1e-3"),
        ({"train": MASK}, "splits need both `train` and `test`"),
        (
            {"train": MASK.astype(int), "test": ~MASK},
            r"`train` must hold booleans, got int64; save train.astype\(bool\)",
        ),
        ({"train": MASK[:, 1:], "test": ~MASK}, r"`train` has shape \(2, 29\); it must be \(N,\) or \(draws, N\)"),
        ({"train": MASK[None], "test": ~MASK[None]}, r"`train` has shape \(1, 2, 30\)"),
        ({"train": MASK, "test": ~MASK[:1]}, "2 rows of `train` and 1 of `test`"),
        ({"train": MASK, "test": MASK}, r"splits\[0\]: 15 samples are in both train and test"),
        ({"train": MASK & False, "test": MASK}, r"splits\[0\]: train must hold .*, and not be empty"),
        ({"train": [y == 2], "test": [y != 2]}, "draw 1 holds a single class"),
        ({"groups": 0 * y}, "mine.npz: groups has a single group"),
        ({"groups": y[:3]}, r"mine.npz: groups has shape \(3,\); it must hold one entry for each of the 30 samples"),
        ({"groups": np.where(y, y, np.nan)}, r"mine.npz: groups\[0\] is nan; name the group of every sample"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_the_reason(tmp_path, arrays, message):
    with pytest.raises(ValueError, match=message):
        load_experiment(data=save(tmp_path, **arrays))


def test_a_ridge_mends_what_it_can(tmp_path):
    experiment = load_experiment(data=save(tmp_path, X=NOT_DEFINITE), ridge=1e-3)
    assert np.linalg.eigvalsh(experiment.X).min() > 0


@pytest.mark.parametrize("content", [b"", b"hello", None])
def test_a_file_that_is_cut_off_or_something_else_is_refused(tmp_path, content):
    path = save(tmp_path)
    path.write_bytes(path.read_bytes()[:4000] if content is None else content)
    with pytest.raises(FeatureError, match=r"mine.npz: not a readable NumPy file"):
        load_experiment(data=path)


def test_more_draws_than_the_file_has_splits_are_refused(tmp_path):
    with pytest.raises(FeatureError, match="5 draws asked for, the file has 2;"):
        load_experiment(data=save(tmp_path, train=MASK, test=~MASK), draws=5)
    with pytest.raises(ValueError, match="draws=0 is out of range"):
        load_experiment(draws=0)


def test_loading_a_good_file_warns_of_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_experiment(data=save(tmp_path))
