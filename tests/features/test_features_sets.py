"""Image sets without face detection, and images in memory."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from skimage.data import gravel

from spdsl.datasets import Protocol, SkippedFilesWarning, load_set_folder
from spdsl.features import FeatureError, as_gray, image_set_covariance, material_covariance, read_gray, set_covariance


@pytest.fixture(scope="module")
def texture() -> np.ndarray:
    return np.ascontiguousarray(gravel()[:120, :120])


def write_set(folder: Path, count: int, blur: float = 1.0) -> list[np.ndarray]:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(count)
    images = [cv2.GaussianBlur(rng.integers(0, 256, (41, 37)).astype(np.uint8), (0, 0), blur) for _ in range(count)]
    for k, image in enumerate(images):
        cv2.imwrite(str(folder / f"{k}.png"), image)
    return images


def test_a_set_is_the_covariance_of_its_small_equalized_images_with_the_mean(tmp_path):
    images = write_set(tmp_path / "set", 12)
    small = [cv2.equalizeHist(cv2.resize(i, (20, 20), interpolation=cv2.INTER_AREA)) for i in images]
    S = image_set_covariance(tmp_path / "set")
    assert S.shape == (401, 401)
    np.testing.assert_allclose(S, set_covariance(np.stack(small), embedding="augmented"), rtol=1e-12)
    np.testing.assert_array_equal(S, image_set_covariance(images))
    plain = image_set_covariance(images, size=8, equalize=False, embedding="covariance")
    raw = np.stack([cv2.resize(i, (8, 8), interpolation=cv2.INTER_AREA) for i in images])
    np.testing.assert_allclose(plain, set_covariance(raw), rtol=1e-12)
    assert image_set_covariance(images, size=5, shrinkage="oas").shape == (26, 26)


def test_a_folder_of_sets(tmp_path):
    for name, blur in (("wood", 1.0), ("stone", 2.0)):
        for k in range(3):
            write_set(tmp_path / name / f"set{k}", 6 + k, blur)
    write_set(tmp_path / "wood" / "lonely", 1)
    with pytest.warns(SkippedFilesWarning, match="at least 2 samples"):
        loaded = load_set_folder(tmp_path, size=6)
    assert loaded.X.shape == (6, 37, 37)
    assert loaded.files.tolist() == [f"{c}/set{k}" for c in ("stone", "wood") for k in range(3)]
    assert loaded.y.tolist() == ["stone"] * 3 + ["wood"] * 3
    np.testing.assert_array_equal(loaded.X[0], image_set_covariance(tmp_path / "stone" / "set0", size=6))


def test_images_outside_sets_are_told_what_is_expected(tmp_path):
    write_set(tmp_path / "wood", 4)
    with pytest.raises(
        FeatureError, match=r"wood: contains images but not sets of images; expected <class>/<set>/\*\.png"
    ):
        load_set_folder(tmp_path)


def test_sets_that_cannot_be_used_are_named(tmp_path):
    write_set(tmp_path / "one", 1)
    with pytest.raises(FeatureError, match="one: a covariance needs at least 2 samples, got 1"):
        image_set_covariance(tmp_path / "one")
    with pytest.raises(FeatureError, match=r"0\.png: is a single image; pass a video, or the folder"):
        image_set_covariance(tmp_path / "one" / "0.png")
    with pytest.raises(FeatureError, match="at least 2 samples, got 0"):
        image_set_covariance([])
    with pytest.raises(ValueError, match="size=1 is out of range"):
        image_set_covariance(tmp_path / "one", size=1)


@pytest.mark.data
def test_real_sets_load(data, tmp_path):
    for source in sorted((data / "virus").iterdir())[:2]:
        (tmp_path / source.name).symlink_to(source)
    X, y, _ = load_set_folder(tmp_path)
    assert X.shape == (10, 401, 401)
    assert np.linalg.eigvalsh(X).min() > 0
    assert len(next(Protocol(train=3, test=2).splits(y))[0]) == 6


# ------------------------------------------------------------------------------------------------------ images in memory


def test_images_in_memory_are_read_as_their_files_would_be(tmp_path, texture):
    S = material_covariance(texture, size=64)
    color = np.stack([texture] * 3, axis=2)
    for same in (
        texture.astype(float),
        texture.astype(np.float32) / np.float32(255),
        texture.astype(np.uint16) * 257,
        texture.astype(np.int64),
        texture[:, :, None],
        color,
        np.dstack([color, np.zeros_like(texture)]),
        color.astype(float) / 255,
        np.asfortranarray(texture),
    ):
        np.testing.assert_allclose(as_gray(same), texture, atol=1)
        assert np.abs(material_covariance(same, size=64) - S).max() < 0.02 * S.max()
    tint = np.dstack([texture, texture // 2, texture // 3])
    cv2.imwrite(str(tmp_path / "tint.png"), tint)
    np.testing.assert_allclose(as_gray(tint).astype(int), read_gray(tmp_path / "tint.png"), atol=1)
    assert set(np.unique(as_gray(texture > 100))) == {0, 255}
    stretched = as_gray(texture / 7 - 3)
    assert (stretched.min(), stretched.max()) == (0, 255)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((4, 4, 2)), r"shape \(4, 4, 2\): expected gray \(height, width\), or BGR"),
        (np.zeros(4), r"shape \(4,\)"),
        (np.zeros((0, 4)), r"shape \(0, 4\)"),
        (np.full((4, 4), 1j), "dtype complex128"),
        (np.full((4, 4), "a"), "dtype <U1"),
        (np.full((4, 4), np.nan), "NaN or infinity"),
        ([[1, 2], [3]], "not an array"),
    ],
)
def test_what_is_no_image_is_refused(image, message):
    for function in (as_gray, material_covariance):
        with pytest.raises(FeatureError, match=message):
            function(image)
