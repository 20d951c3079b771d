from __future__ import annotations

import cv2
import numpy as np
import pytest
from PIL import Image
from skimage.data import gravel

from spdsl import RegionCovariance
from spdsl.datasets import Protocol, load_image_folder
from spdsl.features import (
    REGION_FEATURES,
    FeatureError,
    dense_sift,
    material_covariance,
    read_gray,
    region_covariance,
    set_covariance,
)


@pytest.fixture(scope="module")
def texture() -> np.ndarray:
    return np.ascontiguousarray(gravel()[:160, :160])


def test_every_kind_of_image_becomes_the_same_gray(tmp_path, texture):
    gray = Image.fromarray(texture)
    color = np.stack([texture] * 3, axis=2)
    cv2.imwrite(str(tmp_path / "gray.png"), texture)
    cv2.imwrite(str(tmp_path / "sixteen.png"), texture.astype(np.uint16) * 257)
    cv2.imwrite(str(tmp_path / "sixteen.tif"), texture.astype(np.uint16) * 257)
    gray.convert("P").save(tmp_path / "palette.png")
    Image.fromarray(np.dstack([color, np.full(texture.shape, 255, np.uint8)])).save(tmp_path / "rgba.png")
    Image.fromarray(color).convert("CMYK").save(tmp_path / "cmyk.jpg", quality=100)
    for file in tmp_path.iterdir():
        image = read_gray(file)
        assert image.dtype == np.uint8
        assert image.shape == texture.shape
        tolerance = 4 if file.name == "cmyk.jpg" else 1
        assert np.abs(image.astype(int) - texture).max() <= tolerance, file.name


def test_floating_point_images_are_stretched(tmp_path, texture):
    cv2.imwrite(str(tmp_path / "float.tiff"), texture.astype(np.float32) / 7 - 3)
    low, high = int(texture.min()), int(texture.max())
    np.testing.assert_allclose(read_gray(tmp_path / "float.tiff"), (texture - low) * (255.0 / (high - low)), atol=0.51)
    cv2.imwrite(str(tmp_path / "nan.tiff"), np.full((9, 9), np.nan, np.float32))
    with pytest.raises(FeatureError, match=r"nan\.tiff: .*NaN"):
        read_gray(tmp_path / "nan.tiff")


def test_unreadable_images_are_named(tmp_path, texture):
    cv2.imwrite(str(tmp_path / "whole.png"), texture)
    whole = (tmp_path / "whole.png").read_bytes()
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "text.jpg").write_text("not an image")
    (tmp_path / "cut.png").write_bytes(whole[:40])
    for name, message in (
        ("empty.png", "0 bytes"),
        ("text.jpg", "cannot be decoded"),
        ("cut.png", "cannot be decoded"),
    ):
        with pytest.raises(FeatureError, match=f"{name}: .*{message}"):
            read_gray(tmp_path / name)


def test_descriptor_sees_a_window_of_sixteen_pixels():
    # an edge further than the window (8 pixels, plus half a bin of interpolation and OpenCV's blur) leaves no trace
    def at_center(column: int) -> np.ndarray:
        image = np.full((65, 65), 100, np.uint8)
        image[:, column:] = 160
        return dense_sift(image, step=4, patch=16).reshape(13, 13, 128)[6, 6]

    assert np.abs(at_center(33)).max() > 0
    assert np.abs(at_center(38)).max() > 0
    assert np.abs(at_center(52)).max() == 0


def test_grid_covers_the_image_every_four_pixels(texture):
    descriptors = dense_sift(cv2.resize(texture, (400, 400)))
    assert descriptors.shape == (97 * 97, 128)
    moved = np.roll(texture, (4, 8), axis=(0, 1))
    before = dense_sift(texture).reshape(37, 37, 128)[8:20, 8:20]
    after = dense_sift(moved).reshape(37, 37, 128)[9:21, 10:22]
    np.testing.assert_allclose(before, after, atol=1.0)  # OpenCV rounds descriptors to integers


def test_descriptors_follow_the_definition(texture):
    """An independent dense SIFT (vectorized, from Lowe's definition) on the image OpenCV blurs first."""
    blurred = cv2.GaussianBlur(texture.astype(np.float32), (0, 0), np.sqrt(1.6**2 - 0.5**2))
    gx, gy = np.zeros_like(blurred), np.zeros_like(blurred)
    gx[:, 1:-1] = blurred[:, 2:] - blurred[:, :-2]
    gy[1:-1] = blurred[:-2] - blurred[2:]
    size, angle = np.hypot(gx, gy), np.arctan2(gy, gx) % (2 * np.pi) * 8 / (2 * np.pi)
    expected = dense_sift(texture).reshape(37, 37, 128)
    for row, column in ((10, 10), (20, 5), (30, 33)):
        y, x = 8 + 4 * row, 8 + 4 * column
        histogram = np.zeros((4, 4, 8))
        for dy in range(-14, 15):
            for dx in range(-14, 15):
                r, c = dy / 4 + 1.5, dx / 4 + 1.5
                if not (-1 < r < 4 and -1 < c < 4) or not (0 < y + dy < 159 and 0 < x + dx < 159):
                    continue
                weight = size[y + dy, x + dx] * np.exp(-((dy / 4) ** 2 + (dx / 4) ** 2) / 8)
                for i in range(4):
                    for j in range(4):
                        share = max(0, 1 - abs(r - i)) * max(0, 1 - abs(c - j))
                        o = angle[y + dy, x + dx]
                        histogram[i, j, int(o) % 8] += weight * share * (1 - o % 1)
                        histogram[i, j, (int(o) + 1) % 8] += weight * share * (o % 1)
        d = np.minimum(histogram.ravel(), 0.2 * np.linalg.norm(histogram))
        d = d / np.linalg.norm(d)
        got = expected[row, column] / np.linalg.norm(expected[row, column])
        assert d @ got > 0.98


def test_material_covariance_is_the_papers_recipe(tmp_path, texture):
    cv2.imwrite(str(tmp_path / "a.png"), texture)
    S = material_covariance(tmp_path / "a.png")
    assert S.shape == (128, 128)
    assert np.linalg.eigvalsh(S)[0] > 0
    np.testing.assert_array_equal(S, set_covariance(dense_sift(cv2.resize(texture, (400, 400)))))


def test_flat_image_is_refused_with_its_name(tmp_path):
    cv2.imwrite(str(tmp_path / "flat.png"), np.full((50, 50), 77, np.uint8))
    with pytest.raises(FeatureError, match=r"flat\.png: all samples are identical"):
        material_covariance(tmp_path / "flat.png")
    with pytest.raises(FeatureError, match="smaller than one patch"):
        dense_sift(np.zeros((10, 40), np.uint8))


def test_region_covariance_by_hand():
    y, x = np.mgrid[0:9, 0:9] / 8.0
    S = region_covariance(3 * x - y, ridge=0)
    assert S.shape == (len(REGION_FEATURES),) * 2
    v = x.var() * 81 / 80
    np.testing.assert_allclose(S[:3, :3], v * np.array([[1, 0, 3], [0, 1, -1], [3, -1, 10]]), atol=1e-12)
    np.testing.assert_allclose(S[3:, 3:], 0, atol=1e-12)  # a plane has constant derivatives


def test_region_covariance_of_a_file_is_definite(tmp_path, texture):
    cv2.imwrite(str(tmp_path / "a.png"), texture)
    assert np.linalg.eigvalsh(region_covariance(tmp_path / "a.png"))[0] > 0


@pytest.mark.data
def test_materials_are_told_apart(data, tmp_path):
    """A third of the real textures at their own resolution; all of them are in benchmarks/features_figures.py."""
    for source in sorted((data / "kth_tips").iterdir()):
        (tmp_path / "set" / source.name).mkdir(parents=True)
        for file in sorted(source.glob("*.png"))[::3]:
            (tmp_path / "set" / source.name / file.name).symlink_to(file)
    X, y, _ = load_image_folder(tmp_path / "set", size=200)
    assert X.shape[1:] == (128, 128)
    w, V = np.linalg.eigh(X)
    assert w.min() > 0
    logs = ((V * np.log(w)[:, None, :]) @ V.transpose(0, 2, 1)).reshape(len(X), -1)
    d2 = (logs**2).sum(1)[:, None] + (logs**2).sum(1) - 2 * logs @ logs.T
    scores = [(y[tr][d2[np.ix_(te, tr)].argmin(1)] == y[te]).mean() for tr, te in Protocol(train=6, test=6).splits(y)]
    assert np.mean(scores) > 0.7


def test_descriptors_and_regions_do_not_depend_on_the_type_of_the_numbers(texture):
    """Whole numbers used to be taken as they are by region_covariance, so that 16 bits gave matrices 10,000 times as large."""
    kinds = [texture.astype(kind) for kind in (np.int64, np.int16, np.float32, float)] + [texture.tolist()]
    expected, S = dense_sift(texture), region_covariance(texture)
    for image in [*kinds, np.dstack([texture] * 3), texture[:, :, None]]:
        np.testing.assert_array_equal(region_covariance(image), S)
        np.testing.assert_array_equal(dense_sift(image), expected)
    np.testing.assert_array_equal(region_covariance(texture.astype(np.uint16) * 257), S)
    np.testing.assert_array_equal(
        RegionCovariance(32).fit_transform([texture]), RegionCovariance(32).fit_transform(kinds[:1])
    )
    np.testing.assert_allclose(region_covariance(texture / 255.0), S, atol=1e-12)  # fractions stay what they are


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 0}, "step=0 is out of range: it must be at least 1"),
        ({"step": 1.5}, "step must be an integer, got 1.5"),
        ({"patch": 3}, "patch=3 is out of range: it must be at least 4"),
        ({"patch": "16"}, "patch must be an integer, got '16'"),
    ],
    ids=str,
)
def test_options_of_the_grid_are_checked(texture, options, message):
    with pytest.raises(ValueError, match=message):
        material_covariance(texture, **options)
