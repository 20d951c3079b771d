from __future__ import annotations

import cv2
import numpy as np
import pytest
from clips import center, frame, write_frames, write_video

from spdsl.features import (
    FeatureError,
    contact_sheet,
    crop_face,
    detect_faces,
    face_covariance,
    face_crops,
    gray_frames,
    link_faces,
    set_covariance,
    track_face,
)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """20 frames with the face hidden in 6 and 7, then 15 without, then 10 with."""
    faces = [k not in (6, 7) for k in range(20)] + [False] * 15 + [True] * 5
    return write_video(tmp_path_factory.mktemp("clip") / "clip.avi", faces)


def test_face_is_followed_through_gaps_and_absence(clip):
    track = track_face(clip)
    assert (track.frames, track.detected, track.filled, track.missing) == (40, 23, 2, 15)
    for k, (x, y, side) in track.boxes.items():
        assert np.hypot(x + side / 2 - center(k)[0], y + side / 2 - center(k)[1]) < 0.25 * side
    assert track.summary() == "40 frames: face detected in 23, filled in 2, missing in 15"


def test_matrix_is_that_of_the_crops(clip):
    matrix, track = face_covariance(clip)
    crops = np.concatenate(list(face_crops(clip, track)))
    assert crops.shape == (25, 20, 20)
    assert matrix.shape == (401, 401)
    assert np.linalg.eigvalsh(matrix)[0] > 0
    np.testing.assert_array_equal(matrix, set_covariance(crops, embedding="augmented"))
    small, _ = face_covariance(clip, size=8, embedding="covariance", shrinkage="oas")
    assert small.shape == (64, 64)


def test_crops_hold_the_face(clip):
    # crops of one face resemble one another far more than they resemble other parts of the photograph
    _, track = face_covariance(clip)
    crops = np.concatenate(list(face_crops(clip, track))).reshape(25, -1).astype(float)
    seen = [i for i, k in enumerate(track.boxes) if k not in (6, 7)]
    assert np.corrcoef(crops[seen]).min() > 0.7  # the detector's box jitters by a pixel or two
    gray = cv2.cvtColor(frame(0), cv2.COLOR_BGR2GRAY)
    elsewhere = crop_face(gray, (0, 120, 60)).ravel()
    assert np.corrcoef(crops[0], elsewhere)[0, 1] < 0.5


def test_a_folder_of_frames_is_a_clip_in_numeric_order(tmp_path):
    folder = write_frames(tmp_path / "clip", [True] * 12)
    _, track = face_covariance(folder)
    assert track.detected == 12
    lefts = [box[0] for box in track.boxes.values()]
    assert np.all(np.diff(lefts) > -3)  # frame10 comes after frame9, so the face only drifts to the right
    assert lefts[-1] - lefts[0] > 15


def test_too_few_faces_is_an_error_that_counts_them(tmp_path):
    path = write_video(tmp_path / "few.avi", [True] * 4 + [False] * 20)
    with pytest.raises(
        FeatureError, match=r"few.avi: too few faces \(24 frames: face detected in 4, .* missing in 20\)"
    ):
        face_covariance(path)
    assert face_covariance(path, min_faces=4)[0].shape == (401, 401)
    with pytest.raises(FeatureError, match="too few faces"):
        face_covariance(write_video(tmp_path / "none.avi", [False] * 15))


def test_mp4_is_read(tmp_path):
    assert track_face(write_video(tmp_path / "clip.mp4", [True] * 11, "mp4v")).detected == 11


def test_damaged_video_is_named(tmp_path, clip):
    (tmp_path / "empty.avi").write_bytes(b"")
    (tmp_path / "noise.mp4").write_bytes(np.random.default_rng(0).bytes(5000))
    cut = tmp_path / "cut.avi"
    cut.write_bytes(clip.read_bytes()[: clip.stat().st_size // 2])
    for name, message in (
        ("empty.avi", "0 bytes"),
        ("noise.mp4", "no frame can be decoded"),
        ("gone.avi", "no such file"),
    ):
        with pytest.raises(FeatureError, match=f"{name}: .*{message}"):
            list(gray_frames(tmp_path / name))
    with pytest.raises(FeatureError, match=r"cut.avi: the video is truncated, \d+ of 40 frames"):
        list(gray_frames(cut))
    assert 5 < len(list(gray_frames(cut, truncated="keep"))) < 40


def test_one_frame_and_constant_clips_are_refused(tmp_path):
    with pytest.raises(FeatureError, match=r"one\.avi: too few faces"):
        face_covariance(write_video(tmp_path / "one.avi", [True]), min_faces=1)
    folder = tmp_path / "still"
    folder.mkdir()
    for k in range(12):
        cv2.imwrite(str(folder / f"{k}.png"), frame(0))
    with pytest.raises(FeatureError, match="still: all samples are identical"):
        face_covariance(folder)


def test_no_face_in_noise_or_flat_images():
    assert detect_faces(np.full((120, 160), 128, np.uint8)) == []
    assert detect_faces(np.random.default_rng(0).integers(0, 256, (120, 160)).astype(np.uint8)) == []


def test_detection_in_a_large_frame_is_in_its_own_pixels():
    gray = cv2.cvtColor(cv2.resize(frame(0), (1600, 1600)), cv2.COLOR_BGR2GRAY)
    ((x, y, side),) = detect_faces(gray)
    assert np.hypot(x + side / 2 - 8 * 80, y + side / 2 - 8 * 95) < 0.2 * side


# -------------------------------------------------------------------------------------------------- tracking, by itself


def test_the_larger_face_wins_and_is_not_left_for_a_nearer_small_one():
    big, small = [(10.0 + k, 10.0, 50.0) for k in range(30)], [(100.0, 60.0, 20.0)] * 30
    track = link_faces([[b, s] if k % 7 else [s] for k, (b, s) in enumerate(zip(big, small, strict=True))])
    assert all(box[2] == 50 for box in track.boxes.values())
    assert (track.detected, track.filled) == (25, 4)  # frame 0 lies before the first detection, so it cannot be filled


def test_gaps_longer_than_allowed_stay_open():
    boxes = [[(10.0, 10.0, 40.0)]] * 5 + [[]] * 4 + [[(12.0, 10.0, 40.0)]] * 5
    assert link_faces(boxes, max_gap=4).filled == 4
    assert link_faces(boxes, max_gap=3).missing == 4
    assert link_faces(boxes, max_gap=3).detected == 10


def test_a_lone_false_detection_does_not_join():
    boxes = [[(10.0, 10.0, 40.0)]] * 8 + [[]] * 12 + [[(150.0, 90.0, 30.0)]] + [[]] * 12
    track = link_faces(boxes)
    assert set(track.boxes) == set(range(8))


def test_no_detections_make_an_empty_track():
    assert link_faces([[], []]).boxes == {}
    assert link_faces([]).frames == 0


def test_contact_sheet_is_written(tmp_path, clip):
    contact_sheet(clip, track_face(clip), tmp_path / "sheet.png")
    sheet = cv2.imread(str(tmp_path / "sheet.png"), 0)
    assert sheet.shape == (4 * 240, 8 * 160)
    assert (sheet == 255).sum() > 1000
