from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from acclaim import ASF, clip_text, fuzz, write_pair
from hypothesis import given, settings
from hypothesis import strategies as st

from spdsl.features import (
    FeatureError,
    JointCovariance,
    find_skeleton,
    joint_covariance,
    motion_covariance,
    read_amc,
    read_asf,
    read_c3d,
    read_tracks,
)


@pytest.mark.data
def test_all_real_clips_match_the_reference(data):
    reference = np.load(data / "hdm05_11.npz")
    ends = dict(zip(reference["name"], np.cumsum(reference["length"]), strict=True))
    length = dict(zip(reference["name"], reference["length"], strict=True))
    files = sorted((data / "hdm05_raw").glob("*.amc"))
    assert len(files) == 22
    for file in files:
        expected = reference["X"][ends[file.stem] - length[file.stem] : ends[file.stem]].astype(float)
        joints = read_amc(file, step=2)
        assert joints.shape == (length[file.stem], 31, 3)
        np.testing.assert_allclose(joints.reshape(-1, 93), expected, atol=0.001)
        A, B = joint_covariance(joints), joint_covariance(expected.reshape(-1, 31, 3))
        assert np.linalg.norm(A - B) < 1e-3 * np.linalg.norm(B)


@pytest.mark.data
def test_joints_come_in_the_order_of_the_reference(data):
    names = [name.split("_@_")[-1] for name in np.load(data / "hdm05_11.npz")["joint_names"]]
    assert list(read_asf(data / "hdm05_raw" / "HDM_bd.asf").joint_names) == names


def test_kinematics_by_hand(tmp_path):
    # first frame: root turned by -10 about y, then 5 about z; all else is at rest. Lengths are divided by 0.5.
    joints = read_amc(write_pair(tmp_path))
    assert joints.shape == (12, 4, 3)
    a, b = np.radians(-10), np.radians(5)
    y = np.array([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
    z = np.array([[np.cos(b), -np.sin(b), 0], [np.sin(b), np.cos(b), 0], [0, 0, 1]])
    root = np.array([0, 1.5, -0.2]) / 0.5
    offsets = np.cumsum([[2, 0, 0], [0, -3, 0], [0, 0, 1]], axis=0) / 0.5
    np.testing.assert_allclose(joints[0], np.vstack([root, root + offsets @ (z @ y).T]), atol=1e-12)


def test_bones_keep_their_lengths(tmp_path):
    joints = read_amc(write_pair(tmp_path))
    lengths = np.linalg.norm(np.diff(joints, axis=1), axis=2)
    np.testing.assert_allclose(lengths, np.broadcast_to([4, 6, 2], (12, 3)), rtol=1e-12)


def test_radians_and_unix_line_ends(tmp_path):
    clip = write_pair(tmp_path)
    expected = read_amc(clip)
    lines = [":RADIANS" if line == ":DEGREES" else line for line in clip_text(12, "\n").split("\n")]
    for i, line in enumerate(lines):
        name, *values = line.split() or [""]
        if name in ("root", "leg", "foot"):
            fixed = 3 if name == "root" else 0
            lines[i] = " ".join([name, *values[:fixed], *(repr(np.radians(float(v)).item()) for v in values[fixed:])])
    clip.write_text("\n".join(lines), encoding="latin-1")
    np.testing.assert_allclose(read_amc(clip), expected, atol=1e-12)


def test_skeleton_is_found_beside_above_and_by_the_longest_name(tmp_path):
    clip = write_pair(tmp_path / "clips" / "walk")
    assert find_skeleton(clip).name == "HDM_xx.asf"
    (clip.parent / "HDM_xx.asf").rename(tmp_path / "HDM_xx.asf")
    assert find_skeleton(clip) == (tmp_path / "HDM_xx.asf").resolve()
    longer = clip.parent / "HDM_xx_walk.asf"
    longer.write_text(ASF)
    assert find_skeleton(clip) == longer


def test_missing_skeleton_is_named_with_the_remedy(tmp_path):
    clip = write_pair(tmp_path)
    (tmp_path / "HDM_xx.asf").rename(tmp_path / "HDM_yy.asf")
    with pytest.raises(FeatureError, match=r"walk_001_120.amc: no skeleton found; put HDM_xx.asf next to"):
        read_amc(clip)
    assert read_amc(clip, tmp_path / "HDM_yy.asf").shape == (12, 4, 3)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dof rx rz", "dof rx", "'foot' has 2 values, once; the skeleton needs 1"),
        ("     dof rx rz\n", "", "'foot' is not a moving bone"),
        ("name foot", "name toe", "which is not a bone"),
        ("leg foot", "foot leg", "not connected|two parents"),
        ("root hip", "root", "not connected to the root"),
        ("length 0.5", "length 0", "length unit is 0"),
        ("length 0.5", "length nan", "not 1 finite numbers"),
        ("dof rx rz", "dof rx l", "only rx, ry, rz"),
        ("axis 90 0 20 XYZ", "axis 90 0 20 XXZ", "axis order 'XXZ'"),
        (":hierarchy", ":other", "no :hierarchy section"),
        ("direction 0 0 1", "direction 0 0", "not 3 finite numbers"),
        ("order TX TY TZ RX RY RZ", "order TX TY", "expected TX TY TZ RX RY RZ"),
    ],
)
def test_a_skeleton_that_does_not_fit_is_explained(tmp_path, old, new, message):
    clip = write_pair(tmp_path)
    text = ASF.replace(old, new)
    assert text != ASF
    (tmp_path / "HDM_xx.asf").write_text(text)
    with pytest.raises(FeatureError, match=message) as caught:
        read_amc(clip)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[: len(t) // 2], "frame 7 has|has . values"),
        (lambda t: "", "no frames found"),
        (lambda t: t.replace("leg 3 ", "leg x "), "line 18: 'x -3 1.5' are not finite numbers"),
        (lambda t: t.replace("leg 3 ", "leg nan "), "not finite numbers"),
        (lambda t: t.replace("leg 3 -3", "arm 3 -3"), "'arm' is not a moving bone"),
        (lambda t: t.replace("foot -3 1.25e-014\r\n", ""), "frame 4 has 2 of 3 bones, 'foot' is missing"),
        (lambda t: t.replace("leg 3 -3 1.5\r\n", "leg 3 -3 1.5\r\nleg 3 -3 1.5\r\n"), "twice in a frame"),
    ],
)
def test_a_damaged_clip_is_explained(tmp_path, change, message):
    clip = write_pair(tmp_path)
    clip.write_bytes(change(clip_text(12)).encode("latin-1"))
    with pytest.raises(FeatureError, match=message):
        read_amc(clip)


def test_one_frame_and_a_frozen_body_have_no_covariance(tmp_path):
    with pytest.raises(FeatureError, match=r"walk_001_120.amc: a covariance needs at least 2"):
        motion_covariance(write_pair(tmp_path, frames=1))
    frozen = tmp_path / "frozen.npy"
    np.save(frozen, np.ones((9, 5, 3)))
    with pytest.raises(FeatureError, match=r"frozen.npy: all samples are identical"):
        motion_covariance(frozen)


def test_mutated_files_are_read_or_refused(tmp_path):
    tally = fuzz(600, 7, ASF.encode("latin-1"), clip_text(6).encode("latin-1"), tmp_path)
    assert tally["tried"] == 600
    assert tally["refused"] > 200
    assert tally["read"] > 5
    assert tally["slowest"] < 2


@given(asf=st.text(max_size=400), amc=st.binary(max_size=400))
@settings(max_examples=150, deadline=None)
def test_arbitrary_text_is_refused(tmp_path_factory, asf, amc):
    folder = tmp_path_factory.mktemp("any")
    (folder / "a.asf").write_text(asf, encoding="utf-8", errors="replace")
    (folder / "a_b.amc").write_bytes(amc)
    with pytest.raises(FeatureError):
        read_amc(folder / "a_b.amc")


# ------------------------------------------------------------------------------------------------------ other formats


@pytest.fixture
def tracks() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(20, 4, 3)).cumsum(axis=0)


WRITE_C3D = """
import sys
import ezc3d
import numpy as np
tracks = np.load(sys.argv[1])
file = ezc3d.c3d()
file["parameters"]["POINT"]["RATE"]["value"] = [100]
file["parameters"]["POINT"]["LABELS"]["value"] = [f"m{k}" for k in range(tracks.shape[1])]
points = np.ones((4, tracks.shape[1], len(tracks)))
points[:3] = tracks.transpose(2, 1, 0)
file["data"]["points"] = points
file.write(sys.argv[2])
"""


def write_c3d(path: Path, tracks: np.ndarray) -> None:
    """In a process of its own: after faiss was imported, the types of ezc3d no longer fit together."""
    np.save(path.with_suffix(".tracks.npy"), tracks)
    subprocess.run([sys.executable, "-c", WRITE_C3D, path.with_suffix(".tracks.npy"), path], check=True)


def test_csv_npy_and_c3d_hold_the_same_tracks(tmp_path, tracks):
    flat = tracks.reshape(20, 12)
    np.save(tmp_path / "a.npy", flat)
    np.savetxt(tmp_path / "a.csv", flat, delimiter=",", header=",".join(f"j{k}" for k in range(12)), comments="")
    np.savetxt(tmp_path / "a.txt", flat)
    np.savetxt(tmp_path / "b.csv", flat, delimiter=";")
    write_c3d(tmp_path / "a.c3d", tracks)
    for name in ("a.npy", "a.csv", "a.txt", "b.csv"):
        np.testing.assert_allclose(read_tracks(tmp_path / name), tracks, rtol=1e-12)
    np.testing.assert_allclose(read_tracks(tmp_path / "a.c3d"), tracks, rtol=1e-5)  # C3D stores single precision
    np.testing.assert_allclose(read_tracks(tmp_path / "a.npy", step=3), tracks[::3])


def test_hidden_markers_are_refused_filled_or_dropped(tmp_path, tracks):
    broken = tracks.copy()
    broken[5:7, 2] = np.nan
    write_c3d(tmp_path / "gap.c3d", broken)
    with pytest.raises(FeatureError, match=r"gap.c3d: 2 positions are NaN, the first in frame 5, joint 2; use gaps="):
        read_tracks(tmp_path / "gap.c3d")
    filled = read_tracks(tmp_path / "gap.c3d", gaps="interpolate")
    np.testing.assert_allclose(filled[5, 2], (2 * tracks[4, 2] + tracks[7, 2]) / 3, rtol=1e-5)
    assert len(read_tracks(tmp_path / "gap.c3d", gaps="drop")) == 18
    broken[:, 2] = np.nan
    write_c3d(tmp_path / "gap.c3d", broken)
    with pytest.raises(FeatureError, match="joint 2 is never seen"):
        read_tracks(tmp_path / "gap.c3d", gaps="interpolate")


def test_masked_positions_are_hidden_markers(tracks):
    far = tracks.copy()
    far[4, 1] = 1e6
    masked = np.ma.masked_array(far, far == 1e6)
    with pytest.raises(FeatureError, match="the first in frame 4, joint 1"):
        read_tracks(masked)
    hidden = masked.filled(np.nan)
    for gaps in ("interpolate", "drop"):
        np.testing.assert_array_equal(read_tracks(masked, gaps=gaps), read_tracks(hidden, gaps=gaps))
        own, given = (JointCovariance(gaps=gaps).fit_transform([clip]) for clip in (masked, hidden))
        np.testing.assert_array_equal(own, given)


def test_damaged_c3d_is_refused(tmp_path, tracks):
    path = tmp_path / "a.c3d"
    write_c3d(path, tracks)
    whole = path.read_bytes()
    for damaged in (b"", whole[:300], whole[:600], b"x" * 2000, whole[:2] + b"\xff\xff" + whole[4:], whole[:-700]):
        path.write_bytes(damaged)
        with pytest.raises(FeatureError, match=r"a\.c3d: "):
            read_tracks(path)


def test_mutated_c3d_is_read_or_refused(tmp_path, tracks):
    path, rng = tmp_path / "a.c3d", random.Random(0)
    write_c3d(path, tracks)
    whole = path.read_bytes()
    read = 0
    for _ in range(2000):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 5)):
            damaged[rng.randrange(rng.choice((24, 600, len(damaged))))] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            read += read_tracks(path, gaps="drop").ndim == 3
        except FeatureError as error:
            assert "a.c3d: " in str(error)  # noqa: PT017
    assert 100 < read < 1900


def c3d_bytes(tracks: np.ndarray, processor: int, *, integers: bool) -> bytes:
    """A minimal C3D file as the format's description lays it out, with two analog channels between the frames."""
    order = ">" if processor == 86 else "<"

    def floats(values: np.ndarray) -> bytes:
        if processor != 85:
            return values.astype(f"{order}f4").tobytes()
        return (values.astype("<f4") * 4).astype("<f4").view("<u2").reshape(-1, 2)[:, ::-1].tobytes()

    frames, points = tracks.shape[:2]
    scale = 0.01 if integers else -1.0
    head = bytes([2, 0x50]) + np.array([points, 2, 1, frames, 0], f"{order}u2").tobytes() + floats(np.array([scale]))
    head += np.array([3, 1], f"{order}u2").tobytes()
    rows = np.zeros((frames, 4 * points + 2))
    rows[:, : 4 * points] = np.concatenate([tracks, np.zeros((frames, points, 1))], axis=2).reshape(frames, -1)
    hidden = np.isnan(rows[:, : 4 * points : 4])
    rows[:, 3 : 4 * points : 4][hidden] = -1
    rows = np.nan_to_num(rows)
    if integers:
        rows[:, : 4 * points] /= np.tile([scale, scale, scale, 1], points)
        body = np.round(rows).astype(f"{order}i2").tobytes()
    else:
        body = floats(rows.ravel())
    return head.ljust(512, b"\0") + bytes([1, 0x50, 0, processor]).ljust(512, b"\0") + body


@pytest.mark.parametrize("processor", [84, 85, 86])
@pytest.mark.parametrize("integers", [True, False])
def test_c3d_of_every_machine(tmp_path, tracks, processor, integers):
    tracks[3, 1] = np.nan
    (tmp_path / "a.c3d").write_bytes(c3d_bytes(tracks, processor, integers=integers))
    np.testing.assert_allclose(read_c3d(tmp_path / "a.c3d"), tracks, rtol=1e-6, atol=0.006 if integers else 0)


def test_tables_that_are_no_tracks_are_refused(tmp_path):
    cases = {
        "words.csv": ("a,b,c\n1,2,3\n1,x,3\n", "row 3, column 2: 'x' is not a number"),
        "ragged.csv": ("1,2,3\n1,2\n", "row 2 has 2 columns"),
        "four.csv": ("1,2,3,4\n1,2,3,4\n", "not a joint track"),
        "empty.csv": ("", "empty"),
        "inf.csv": ("1,2,inf\n1,2,3\n", "infinite"),
        "fake.npy": ("not an array", "not a readable NumPy"),
        "clip.bvh": ("", "not a motion file"),
    }
    for name, (text, message) in cases.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(FeatureError, match=f"{name}.*{message}"):
            read_tracks(tmp_path / name)


def test_root_relative_forgets_where_the_body_goes(tracks):
    wander = np.random.default_rng(1).normal(size=(20, 1, 3)) * 100
    moved = joint_covariance(tracks + wander, root_relative=True)
    assert moved.shape == (9, 9)
    np.testing.assert_allclose(moved, joint_covariance(tracks, root_relative=True), rtol=1e-7, atol=1e-9)
    assert joint_covariance(tracks).shape == (12, 12)
