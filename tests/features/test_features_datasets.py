from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest
from acclaim import write_pair
from clips import write_frames, write_video

from spdsl import check_spd
from spdsl.datasets import (
    HDM05_CLASSES,
    Protocol,
    SkippedFilesWarning,
    hdm05_name,
    load_hdm05,
    load_image_folder,
    load_mocap_folder,
    load_spd,
    load_uiuc,
    load_video_folder,
    load_ytc,
    loading,
)
from spdsl.features import FeatureError, Recipe, motion_covariance


def image_folder(root: Path, classes: int = 2, each: int = 4) -> Path:
    rng = np.random.default_rng(0)
    for c in range(classes):
        (root / f"class{c}").mkdir(parents=True)
        for k in range(each):
            noise = cv2.GaussianBlur(rng.integers(0, 256, (40, 40)).astype(np.uint8), (0, 0), 0.5 + c)
            cv2.imwrite(str(root / f"class{c}" / f"im{k}.png"), noise)
    return root


def files_under(folder: Path) -> list[str]:
    """Names of the files below a folder, the digest of a stack left out."""
    return sorted(re.sub("^stack-[0-9a-f]+", "stack", path.name) for path in folder.rglob("*") if path.is_file())


# ---------------------------------------------------------------------------------------------------------- protocol


def test_protocol_draws_per_class_without_overlap():
    y = np.repeat(["a", "b", "c"], [9, 10, 12])
    splits = list(Protocol(train=3, test=6).splits(y))
    assert len(splits) == 10
    for train, test in splits:
        assert not set(train) & set(test)
        assert np.unique(y[train], return_counts=True)[1].tolist() == [3, 3, 3]
        assert np.unique(y[test], return_counts=True)[1].tolist() == [6, 6, 6]
    assert len({tuple(train) for train, _ in splits}) == 10
    again = list(Protocol(train=3, test=6).splits(y))
    assert all((a[0] == b[0]).all() and (a[1] == b[1]).all() for a, b in zip(splits, again, strict=True))


def test_half_and_half_uses_everything():
    y = np.repeat([0, 1, 2], [4, 5, 1])
    for train, test in Protocol().splits(y):
        assert sorted([*train, *test]) == list(range(10))
        assert np.bincount(y[train]).tolist() == [2, 2, 1]


def test_small_class_is_named():
    with pytest.raises(ValueError, match="class 'b' has 2 samples, the protocol takes 9"):
        next(Protocol(train=3, test=6).splits(np.array(["a"] * 9 + ["b"] * 2)))


# ----------------------------------------------------------------------------------------------- the papers' datasets


@pytest.mark.data
def test_hdm05_from_its_own_files(data, tmp_path):
    loaded = load_hdm05(data / "hdm05_raw", cache=tmp_path / "cache")
    X, y, protocol = loaded
    assert X.shape == (22, 93, 93)
    assert np.linalg.eigvalsh(X).min() > 0
    assert np.unique(y, return_counts=True)[1].tolist() == [2] * 11
    assert {hdm05_name(file)["actor"] for file in loaded.files} == {"bd", "mm"}
    assert protocol == Protocol(train=None, test=None, draws=10)
    start = time.perf_counter()
    again = load_hdm05(data / "hdm05_raw", cache=tmp_path / "cache")
    assert time.perf_counter() - start < 0.5
    np.testing.assert_array_equal(again.X, X)


def test_hdm05_classes_and_names(tmp_path):
    assert len(set(HDM05_CLASSES)) == 130
    (tmp_path / "cut").mkdir()
    for name in ("HDM_xx_squat1Reps_001_120", "HDM_xx_squat1Reps_002_120", "HDM_xx_clap1Reps_001_120"):
        write_pair(tmp_path / "cut", name=name)
    for odd in ("HDM_xx_01-01_02_120", "HDM_xx_dancing_001_120", "walk"):
        write_pair(tmp_path / "cut", name=odd)
    with pytest.warns(SkippedFilesWarning, match="HDM05: 3 of 6 files skipped"):
        loaded = load_hdm05(tmp_path)
    assert loaded.y.tolist() == ["clap1Reps", "squat1Reps", "squat1Reps"]
    assert "not one of the 130 classes" in loaded.skipped["cut/HDM_xx_dancing_001_120.amc"]
    assert "not named like a cut clip" in loaded.skipped["cut/walk.amc"]
    with pytest.raises(FeatureError, match="not named like"):
        load_hdm05(tmp_path, errors="raise")


def test_ytc_from_clips_named_by_person(tmp_path):
    write_video(tmp_path / "0094_03_002_al_gore.avi", [True] * 11)
    write_frames(tmp_path / "0095_01_001_al_gore", [True] * 11)
    write_video(tmp_path / "0302_03_006_angelina_jolie.avi", [False] * 11)
    write_video(tmp_path / "holiday.avi", [False] * 3)
    with pytest.warns(SkippedFilesWarning, match="2 of 4 files skipped"):
        loaded = load_ytc(tmp_path, cache=False)
    assert loaded.X.shape == (2, 401, 401)
    assert loaded.y.tolist() == ["al_gore", "al_gore"]
    assert loaded.protocol == Protocol(train=3, test=6, draws=10)
    assert "too few faces" in loaded.skipped["0302_03_006_angelina_jolie.avi"]
    assert "detected in 11" in loaded.notes["0095_01_001_al_gore"]


def test_uiuc_from_a_folder_per_subcategory(tmp_path):
    image_folder(tmp_path / "uiuc")
    X, y, protocol = load_uiuc(tmp_path / "uiuc", size=80)
    assert X.shape == (8, 128, 128)
    assert y.tolist() == ["class0"] * 4 + ["class1"] * 4
    assert protocol == Protocol()


@pytest.mark.parametrize(
    ("loader", "where"),
    [(load_ytc, "seqamlab.com"), (load_uiuc, "Liao"), (load_hdm05, "resources.mpi-inf.mpg.de/HDM05")],
)
def test_missing_and_wrong_folders_say_what_was_expected_and_where_it_is(tmp_path, loader, where):
    with pytest.raises(FeatureError, match=f"no such folder; .* needs .*{where}"):
        loader(tmp_path / "gone")
    (tmp_path / "notes.docx").write_text("nothing")
    with pytest.raises(FeatureError, match=f"0 files of the kinds .* found; .* needs .*{where}"):
        loader(tmp_path)


# --------------------------------------------------------------------------------------------------------- own folders


def test_generic_folders(tmp_path):
    write_pair(tmp_path / "mocap" / "walk", name="HDM_xx_a")
    write_pair(tmp_path / "mocap" / "run", name="HDM_xx_b")
    assert load_mocap_folder(tmp_path / "mocap").y.tolist() == ["run", "walk"]
    write_video(tmp_path / "video" / "anna" / "one.avi", [True] * 10)
    loaded = load_video_folder(tmp_path / "video", size=6, embedding="covariance")
    assert loaded.X.shape == (1, 36, 36)
    assert loaded.y.tolist() == ["anna"]
    regions = load_image_folder(image_folder(tmp_path / "images"), recipe="regions")
    assert regions.X.shape == (8, 7, 7)


def test_bad_files_are_named_and_the_rest_go_on(tmp_path):
    root = image_folder(tmp_path / "images")
    (root / "class0" / "zero.png").write_bytes(b"")
    (root / "class1" / "text.jpg").write_text("hello")
    (root / "class1" / "dangling.png").symlink_to(root / "nowhere.png")
    cv2.imwrite(str(root / "loose.png"), np.eye(9, dtype=np.uint8))
    cache = tmp_path / "cache"
    with pytest.warns(SkippedFilesWarning, match="4 of 12 files skipped"):
        loaded = load_image_folder(root, cache=cache, size=80)
    assert len(loaded.X) == 8
    assert set(loaded.skipped) == {"class0/zero.png", "class1/text.jpg", "class1/dangling.png", "loose.png"}
    assert all(Path(file).name in reason for file, reason in loaded.skipped.items())
    assert files_under(cache) == ["spdsl-index.json", "stack.npy"]
    with pytest.raises(FeatureError, match=r"zero\.png"):
        load_image_folder(root, cache=False, size=80, errors="raise")


def test_matrices_of_another_size_are_left_out(tmp_path):
    for k in range(4):
        (tmp_path / "walk").mkdir(exist_ok=True)
        np.save(tmp_path / "walk" / f"{k}.npy", np.random.default_rng(k).normal(size=(9, 5 if k else 4, 3)))
    with pytest.warns(SkippedFilesWarning, match="12 x 12, but most of the others are 15 x 15"):
        loaded = load_mocap_folder(tmp_path)
    assert loaded.files.tolist() == ["walk/1.npy", "walk/2.npy", "walk/3.npy"]


def test_nothing_usable_is_an_error_and_leaves_no_half_cache(tmp_path):
    (tmp_path / "data" / "a").mkdir(parents=True)
    (tmp_path / "data" / "a" / "x.png").write_bytes(b"")
    with pytest.raises(FeatureError, match=r"none of 1 files can be used.*0 bytes"):
        load_image_folder(tmp_path / "data")


def test_link_loops_end(tmp_path):
    root = image_folder(tmp_path / "images")
    (root / "class0" / "again").symlink_to(root, target_is_directory=True)
    (root / "class1" / "self").symlink_to(root / "class1", target_is_directory=True)
    assert len(load_image_folder(root, size=80).X) == 8


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_are_left_out_and_not_waited_for(tmp_path):
    write_pair(tmp_path / "m" / "walk")
    os.mkfifo(tmp_path / "m" / "walk" / "pipe.csv")
    assert len(load_mocap_folder(tmp_path / "m").X) == 1
    write_frames(tmp_path / "v" / "anna" / "clip", [True] * 11)
    os.mkfifo(tmp_path / "v" / "anna" / "clip" / "pipe.png")
    assert len(load_video_folder(tmp_path / "v", size=6).X) == 1


def test_ten_thousand_files(tmp_path):
    walk = tmp_path / "data" / "walk"
    walk.mkdir(parents=True)
    np.save(walk / "0.npy", np.random.default_rng(0).normal(size=(4, 2, 3)))
    for k in range(1, 10_000):
        os.link(walk / "0.npy", walk / f"{k}.npy")
    start = time.perf_counter()
    loaded = load_mocap_folder(tmp_path / "data")
    assert loaded.X.shape == (10_000, 6, 6)
    assert loaded.files[10] == "walk/10.npy"
    first, start = time.perf_counter() - start, time.perf_counter()
    load_mocap_folder(tmp_path / "data")
    assert time.perf_counter() - start < max(2.0, first / 4)


# ---------------------------------------------------------------------------------------------------------- the cache


def test_second_load_computes_nothing_and_a_changed_file_only_itself(tmp_path):
    root = tmp_path / "mocap"
    clips = [write_pair(root / "walk", name=f"HDM_xx_w{k}") for k in range(3)]
    seen: list[str] = []

    def watch(outcome, done, total):
        if outcome.fresh:
            seen.append(outcome.sample.name)

    before = load_mocap_folder(root, progress=watch)
    assert len(seen) == 3
    load_mocap_folder(root, progress=watch)
    assert len(seen) == 3
    clips[1].write_bytes(clips[1].read_bytes().replace(b"leg 1 ", b"leg 1.5 "))
    after = load_mocap_folder(root, progress=watch)
    assert seen[3:] == ["HDM_xx_w1.amc"]
    np.testing.assert_array_equal(after.X[[0, 2]], before.X[[0, 2]])
    np.testing.assert_array_equal(after.X[1], motion_covariance(clips[1]))
    (root / "walk" / "HDM_xx.asf").write_text(
        (root / "walk" / "HDM_xx.asf").read_text().replace("length 3", "length 4")
    )
    load_mocap_folder(root, progress=watch)
    assert len(seen) == 7  # another skeleton changes every clip


def test_recipes_do_not_share_results(tmp_path):
    write_pair(tmp_path / "m" / "walk")
    plain = load_mocap_folder(tmp_path / "m")
    relative = load_mocap_folder(tmp_path / "m", root_relative=True)
    assert (plain.X.shape, relative.X.shape) == ((1, 12, 12), (1, 9, 9))
    with pytest.raises(TypeError, match="motion has no option 'rige'"):
        load_mocap_folder(tmp_path / "m", rige=1)


def test_cache_beside_the_data_is_not_taken_for_data(tmp_path):
    write_pair(tmp_path / "m" / "walk")
    load_mocap_folder(tmp_path / "m", cache="beside")
    assert files_under(tmp_path / "m" / ".spdsl-cache") == ["spdsl-index.json", "stack.npy"]
    assert load_mocap_folder(tmp_path / "m", cache="beside").files.tolist() == ["walk/HDM_xx_walk_001_120.amc"]


def test_cache_among_the_data_is_not_taken_for_data(tmp_path):
    (tmp_path / "walk").mkdir()
    np.save(tmp_path / "walk" / "a.npy", np.random.default_rng(0).normal(size=(9, 2, 3)))
    for _ in range(2):
        assert len(load_mocap_folder(tmp_path, cache=tmp_path / "walk" / "cache").X) == 1


def test_damaged_cache_is_built_again(tmp_path):
    write_pair(tmp_path / "m" / "walk")
    expected = load_mocap_folder(tmp_path / "m", cache=tmp_path / "c").X.copy()
    (index,) = (tmp_path / "c").rglob("spdsl-index.json")
    index.write_text("{")
    np.testing.assert_array_equal(load_mocap_folder(tmp_path / "m", cache=tmp_path / "c").X, expected)
    (stack,) = (tmp_path / "c").rglob("stack-*.npy")
    stack.write_bytes(stack.read_bytes()[:100])
    np.testing.assert_array_equal(load_mocap_folder(tmp_path / "m", cache=tmp_path / "c").X, expected)
    stack.unlink()
    np.testing.assert_array_equal(load_mocap_folder(tmp_path / "m", cache=tmp_path / "c").X, expected)


@pytest.mark.parametrize("failure", [MemoryError(), PermissionError(13, "denied"), RuntimeError("crashed")])
def test_failures_that_are_not_the_files_fault_are_tried_again(tmp_path, monkeypatch, failure):
    clips = [write_pair(tmp_path / "m" / "walk", name=f"HDM_xx_w{k}") for k in range(2)]
    (tmp_path / "m" / "walk" / "HDM_xx_bad.amc").write_text("nonsense")
    usual, tried = Recipe.__call__, []

    def fails(self, path):
        tried.append(path.name)
        if path == clips[1]:
            try:
                raise failure
            except OSError as error:
                raise FeatureError(f"{path}: cannot be read") from error
        return usual(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(Recipe, "__call__", fails)
        with pytest.warns(SkippedFilesWarning, match="2 of 3 files"):
            assert len(load_mocap_folder(tmp_path / "m").X) == 1
    with pytest.warns(SkippedFilesWarning, match="1 of 3 files"):
        assert len(load_mocap_folder(tmp_path / "m").X) == 2
    monkeypatch.setattr(Recipe, "__call__", fails)
    tried.clear()
    with pytest.warns(SkippedFilesWarning, match="1 of 3 files"):
        load_mocap_folder(tmp_path / "m")
    assert not tried  # what is wrong with the content stays known


def test_killed_between_stack_and_index(tmp_path, monkeypatch):
    root, cache = tmp_path / "m", tmp_path / "cache"
    clips = [write_pair(root / "walk", frames=9 + k, name=f"HDM_xx_w{k}") for k in range(2)]
    load_mocap_folder(root, cache=cache)
    before = clips[0].read_bytes(), clips[0].stat()
    clips[0].write_bytes(before[0].replace(b"leg 1 ", b"leg 1.5 "))
    written_whole = loading.written_whole

    def killed(path, **options):
        if path.name == loading.INDEX:
            raise KeyboardInterrupt
        return written_whole(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(loading, "written_whole", killed)
        with pytest.raises(KeyboardInterrupt):
            load_mocap_folder(root, cache=cache)
    clips[0].write_bytes(before[0])  # the old index fits again, and must not meet the new stack
    os.utime(clips[0], ns=(before[1].st_atime_ns, before[1].st_mtime_ns))
    np.testing.assert_array_equal(load_mocap_folder(root, cache=cache).X[0], motion_covariance(clips[0]))
    write_pair(root / "walk", name="HDM_xx_w2")
    assert len(load_mocap_folder(root, cache=cache).X) == 3
    assert files_under(cache) == ["spdsl-index.json", "stack.npy"]


def test_first_loads_at_the_same_time(tmp_path):
    (tmp_path / "data" / "walk").mkdir(parents=True)
    for k in range(60):
        np.save(tmp_path / "data" / "walk" / f"{k}.npy", np.random.default_rng(k).normal(size=(50, 31, 3)))
    go = tmp_path / "go"
    script = (
        "import os, sys, time\nfrom spdsl.datasets import load_mocap_folder\nprint('ready', flush=True)\n"
        "while not os.path.exists(sys.argv[3]): time.sleep(0.001)\nfresh = []\n"
        "watch = lambda o, *_: fresh.append(o.fresh)\n"
        "print(len(load_mocap_folder(sys.argv[1], cache=sys.argv[2], progress=watch).X), len(fresh))"
    )
    command = [sys.executable, "-W", "error", "-c", script, tmp_path / "data", tmp_path / "cache", go]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    go.touch()
    printed = sorted(process.communicate(timeout=60)[0].strip() for process in processes)
    assert printed == ["60 0", "60 0", "60 60"]


def test_loaded_stack_can_be_changed_without_touching_the_cache(tmp_path):
    write_pair(tmp_path / "m" / "walk")
    loaded = load_mocap_folder(tmp_path / "m")
    kept = loaded.X.copy()
    loaded.X[:] = 0
    np.testing.assert_array_equal(load_mocap_folder(tmp_path / "m").X, kept)


# ---------------------------------------------------------------------------------------------------------- load_spd


@pytest.fixture
def stack() -> tuple[np.ndarray, np.ndarray]:
    A = np.random.default_rng(0).normal(size=(6, 4, 9))
    return A @ A.transpose(0, 2, 1), np.array([0, 0, 1, 1, 2, 2])


def test_ready_made_stacks_from_every_format(tmp_path, stack):
    import h5py
    import scipy.io

    X, y = stack
    np.savez(tmp_path / "a.npz", X=X, y=y)
    np.save(tmp_path / "a.npy", X)
    scipy.io.savemat(tmp_path / "a.mat", {"covs": X.transpose(1, 2, 0), "gnd": y[:, None]})
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["group/X"] = X
        file["y"] = y
    with h5py.File(tmp_path / "v73.mat", "w", userblock_size=512) as file:
        file["X"] = X.transpose(1, 2, 0).T
        file["labels"] = y
    with open(tmp_path / "v73.mat", "r+b") as block:  # what MATLAB writes in front: text, then version 2.0, byte order
        block.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    rows, columns = np.triu_indices(4)
    np.savez(tmp_path / "triu.npz", triu=X[:, rows, columns], y=y)
    for name in ("a.npz", "a.npy", "a.mat", "a.h5", "v73.mat", "triu.npz"):
        loaded, labels = load_spd(tmp_path / name)
        np.testing.assert_allclose(loaded, X)
        assert (labels is None) == (name == "a.npy")
        if labels is not None:
            assert labels.tolist() == y.tolist()


def test_stack_files_that_hold_something_else_are_refused(tmp_path, stack):
    X, _ = stack
    np.savez(tmp_path / "two.npz", A=X, B=X)
    with pytest.raises(FeatureError, match=r"two\.npz: several stacks: call the one that is meant X.*A \(6, 4, 4\)"):
        load_spd(tmp_path / "two.npz")
    assert load_spd(tmp_path / "two.npz", X="B")[0].shape == (6, 4, 4)
    X[2, 0, 1] += 1
    np.save(tmp_path / "skew.npy", X)
    with pytest.raises(FeatureError, match="matrix 2 is not symmetric"):
        load_spd(tmp_path / "skew.npy")
    X[3] = np.nan
    np.savez(tmp_path / "nan.npz", X=X[3:])
    with pytest.raises(FeatureError, match="matrix 0 holds NaN"):
        load_spd(tmp_path / "nan.npz")
    np.save(tmp_path / "flat.npy", np.ones((3, 5)))
    with pytest.raises(FeatureError, match=r"no stack of real square matrices; the file holds X \(3, 5\)"):
        load_spd(tmp_path / "flat.npy")
    for name in ("bad.npz", "bad.npy", "bad.mat", "bad.h5"):
        (tmp_path / name).write_bytes(b"PK nonsense" * 20)
        with pytest.raises(FeatureError, match=f"{name}: not a readable"):
            load_spd(tmp_path / name)
    with pytest.raises(FeatureError, match="no array named 'z'"):
        load_spd(tmp_path / "two.npz", X="A", y="z")


@pytest.mark.data
def test_real_stack_with_a_zero_matrix_loads(data):
    X, y = load_spd(data / "fpha_63.npz")
    assert X.shape == (1175, 63, 63)
    assert len(y) == 1175
    assert not X[921].any()


@pytest.mark.parametrize(
    "change",
    [
        {"stack": "../../.outside.npy"},
        {"stack": 3},
        {"used": ["../../../escaped.npz"] * 3},
        {"counts": [1, 1]},
        {"counts": ["1", "1", "1"]},
        {"files": ["walk/unknown.amc"] * 3},
        {"notes": []},
        {"skipped": 3},
        {"parts": []},
    ],
    ids=str,
)
def test_an_index_of_somebody_elses_making_is_built_again(tmp_path, change):
    root = tmp_path / "mocap"
    for k in range(3):
        write_pair(root / "walk", name=f"HDM_xx_w{k}")
    right = load_mocap_folder(root, cache="beside").X.copy()
    np.save(root / ".outside.npy", np.zeros_like(right))
    (index,) = root.rglob("spdsl-index.json")
    index.write_text(json.dumps(json.loads(index.read_text()) | change))
    again = load_mocap_folder(root, cache="beside")
    np.testing.assert_array_equal(again.X[: len(right)], right)
    assert not list(tmp_path.rglob("escaped.npz"))
    (index,) = root.rglob("spdsl-index.json")
    index.write_text(index.read_text()[:-20])
    next(index.parent.glob("stack*")).write_bytes(b"")
    np.testing.assert_array_equal(load_mocap_folder(root, cache="beside").X, right)


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_noticed(tmp_path):
    root = tmp_path / "mocap" / "walk"
    root.mkdir(parents=True)
    rng = np.random.default_rng(0)
    np.save(root / "a.npy", rng.normal(size=(30, 4, 3)))
    before = load_mocap_folder(tmp_path / "mocap").X.copy()
    status = os.stat(root / "a.npy")
    np.save(tmp_path / "other.npy", rng.normal(size=(30, 4, 3)))
    os.utime(tmp_path / "other.npy", ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(tmp_path / "other.npy", root / "a.npy")
    after = os.stat(root / "a.npy")
    assert (after.st_size, after.st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    X = load_mocap_folder(tmp_path / "mocap").X
    assert np.abs(X - before).max() > 0.01
    np.testing.assert_array_equal(X[0], motion_covariance(root / "a.npy"))


def test_a_file_where_a_folder_is_expected_is_called_that(tmp_path):
    image_folder(tmp_path / "images")
    with pytest.raises(FeatureError, match=r"im0\.png: a file, not a folder; an image folder needs a folder per class"):
        load_image_folder(tmp_path / "images" / "class0" / "im0.png")


def test_matlab_structs_and_cells(tmp_path, stack):
    import scipy.io

    X, y = stack
    fields = {"trn_X": X.transpose(1, 2, 0), "trn_y": y[None], "tst_X": X[:3].transpose(1, 2, 0), "tst_y": y[None, :3]}
    scipy.io.savemat(tmp_path / "s.mat", {"data": {"inner": fields, "n": 4}})
    with pytest.raises(
        FeatureError, match=r"several stacks: .*load_spd\(path, X='data\.inner\.trn_X'\); .*tst_X \(4, 4, 3\)"
    ):
        load_spd(tmp_path / "s.mat")
    for name in ("data.inner.trn_X", "trn_X"):
        loaded, labels = load_spd(tmp_path / "s.mat", X=name)
        np.testing.assert_array_equal(loaded, X)
        assert labels is not None
        assert labels.tolist() == y.tolist()
    assert load_spd(tmp_path / "s.mat", X="tst_X", y="tst_y")[1].tolist() == y[:3].tolist()  # type: ignore[union-attr]
    cells = np.empty((1, 6), dtype=object)
    structs = np.empty((6, 1), dtype=[("C", object), ("label", object)])
    for k in range(6):
        cells[0, k] = X[k]
        structs[k, 0] = (X[k], np.array([[y[k]]]))
    scipy.io.savemat(tmp_path / "c.mat", {"covs": cells, "gnd": y})
    scipy.io.savemat(tmp_path / "a.mat", {"trial": structs})
    for name in ("c.mat", "a.mat"):
        loaded, labels = load_spd(tmp_path / name)
        np.testing.assert_array_equal(loaded, X)
        assert labels is not None
        assert labels.tolist() == y.tolist()


def test_as_many_matrices_as_rows_are_read_along_the_axis_that_makes_them_symmetric(tmp_path, stack):
    import scipy.io

    X = stack[0][:4]
    scipy.io.savemat(tmp_path / "m.mat", {"X": X.transpose(1, 2, 0)})
    np.save(tmp_path / "n.npy", X)
    for name in ("m.mat", "n.npy"):
        np.testing.assert_array_equal(load_spd(tmp_path / name)[0], X)
    with pytest.raises(
        ValueError, match=r"seem to lie along the last axis, as MATLAB stores them: pass X\.transpose\(2, 0, 1\)"
    ):
        check_spd(X.transpose(1, 2, 0))
    with pytest.raises(
        ValueError, match=r"got \(4, 4, 6\); for matrices along the last axis, .*X\.transpose\(2, 0, 1\)"
    ):
        check_spd(stack[0].transpose(1, 2, 0))
    with pytest.raises(ValueError, match=r"got \(6, 3, 50\); for signals .*signal_covariance\(X\)"):
        check_spd(np.zeros((6, 3, 50)))


def test_entries_of_an_archive_that_overlap_are_refused_unread(tmp_path, monkeypatch):
    """Forty names for the same bytes: a small file that would take any time to read."""
    path = tmp_path / "forged.npz"
    zeros = io.BytesIO()
    np.save(zeros, np.zeros(1 << 22))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a0.npy", zeros.getvalue())
        first = archive.infolist()[0]
        for k in range(1, 40):
            copy = zipfile.ZipInfo(f"a{k}.npy")
            for name in ("compress_type", "CRC", "compress_size", "file_size", "header_offset", "flag_bits"):
                setattr(copy, name, getattr(first, name))
            archive.filelist.append(copy)
            archive.NameToInfo[copy.filename] = copy
        archive._didModify = True
    monkeypatch.setattr("zipfile.zlib.decompressobj", lambda *_: pytest.fail("the entries are read"))
    with pytest.raises(
        FeatureError, match=r"forged\.npz: not a readable NumPy file \(its entries a\d+\.npy and .* overlap"
    ):
        load_spd(path)


def test_an_array_of_objects_is_named(tmp_path, stack):
    X, y = stack
    np.savez(tmp_path / "o.npz", X=X, y=y, who=np.array([{"a": 1}] * 6, dtype=object))
    with pytest.raises(
        FeatureError, match=r"the array 'who': it holds Python objects, which are not loaded; save numbers"
    ):
        load_spd(tmp_path / "o.npz")


@pytest.mark.data
def test_the_real_struct_loads(data):
    X, y = load_spd(data / "toy_30x30.mat", X="trn_X")
    assert X.shape == (200, 30, 30)
    assert np.bincount(y).tolist() == [0, 50, 50, 50, 50]
