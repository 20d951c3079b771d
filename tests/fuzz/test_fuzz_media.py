"""Feature extraction and file readers under odd arrays and damaged files."""

import io
import sys
from pathlib import Path

import cv2
import h5py
import numpy as np
import pytest
import scipy.io
from fuzz_plans import labels
from fuzz_profile import PROFILE
from fuzz_verdict import judge
from hypothesis import given, settings
from hypothesis import strategies as st

import spdsl.features as features
from spdsl.datasets import load_spd
from spdsl.evaluation.store import Store

sys.path.insert(0, str(Path(__file__).parents[1] / "features"))
import acclaim

pytestmark = pytest.mark.fuzz
ODD_SAMPLES = (
    None,
    3,
    "x",
    [],
    [[]],
    [[1, 2], [3]],
    np.zeros((0, 3)),
    np.zeros((3, 0)),
    np.ones(5),
    np.ones((4, 2, 2, 2)),
)


@st.composite
def samples(draw, *, dims=2):
    """Rows of numbers, or frames of pixels, sometimes not finite, constant, huge, or of an odd type."""
    if draw(st.integers(0, 6)) == 0:
        return draw(st.sampled_from(ODD_SAMPLES))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(dims))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    values = rng.standard_normal(shape) * 10.0 ** draw(st.sampled_from([0, 0, 2, -12, 12, -150, 150, -160]))
    flaw = draw(
        st.sampled_from(["", "", "", "", "nan", "inf", "constant", "equal rows", "complex", "words", "objects"])
    )
    if flaw in ("nan", "inf"):
        values.flat[draw(st.integers(0, values.size - 1))] = float(flaw)
    changed = {
        "constant": np.full(shape, 7.0),
        "equal rows": np.broadcast_to(values[:1], shape),
        "complex": values + 1j,
        "words": np.full(shape, "a"),
        "objects": values.astype(object),
    }.get(flaw, values)
    kind = draw(st.sampled_from([None, None, None, np.float32, np.uint8, np.int16, np.float16, bool]))
    if kind is not None and changed.dtype.kind == "f":
        with np.errstate(all="ignore"):
            changed = changed.astype(kind)
    return changed


def spd(P):
    """A result of an extractor must be symmetric, finite, and no less than semi-definite to rounding."""
    P = np.asarray(P)
    for one in P.reshape(-1, *P.shape[-2:]):
        assert np.array_equal(one, one.T)
        size = np.abs(one).max()
        assert size > 0
        assert np.linalg.eigvalsh(one / size).min() > -1e-10
    return P


RIDGES = st.sampled_from([1e-3, 1e-3, 0, 1.0, -1, float("nan"), float("inf"), "x", None])
EXTRACTORS = {
    "set_covariance": lambda draw, X, ridge: features.set_covariance(
        X,
        ridge=ridge,
        embedding=draw(st.sampled_from(["covariance", "augmented", "gaussian", "nope"])),
        shrinkage=draw(st.sampled_from([None, None, "ledoit_wolf", "oas", "nope"])),
    ),
    "joint_covariance": lambda draw, X, ridge: features.joint_covariance(X, ridge=ridge),
    "signal_covariance": lambda draw, X, ridge: features.signal_covariance(
        X, ridge=ridge, estimator=draw(st.sampled_from(["scm", "lwf", "oas", "nope"]))
    ),
    "region_covariance": lambda draw, X, ridge: features.region_covariance(X, ridge=ridge),
}
DIMS = {"set_covariance": 2, "joint_covariance": 3, "signal_covariance": 3, "region_covariance": 2}


@pytest.mark.parametrize("name", EXTRACTORS)
def test_extractor_ends_in_an_spd_matrix_or_a_clear_error(name, counted):
    @PROFILE
    @given(st.data())
    def run(data):
        counted()
        X, ridge = data.draw(samples(dims=DIMS[name])), data.draw(RIDGES)
        draws = []

        def draw(strategy):  # the same choice if called again
            draws.append(data.draw(strategy))
            return draws[-1]

        judge(lambda X: spd(EXTRACTORS[name](draw, X, ridge)), X)

    run()


def test_windows_end_in_windows_or_a_clear_error(counted):
    @PROFILE
    @given(samples(), *[st.sampled_from([1, 2, 5, 0, -1, 2.5, None, "x", 10**9])] * 2)
    def run(signal, length, step):
        counted()
        judge(lambda X: features.cut_windows(X, length, step).ndim == 3, signal)  # NaN in, NaN out: it only cuts

    run()


# ------------------------------------------------------------------------------------------------------------ files


def good_files() -> dict[str, bytes]:
    """A small file of every kind that is read."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 4, 4))
    X, y = A @ A.mT + np.eye(4), np.arange(6) % 2
    made: dict[str, bytes] = {}

    def put(name, write):
        buffer = io.BytesIO()
        write(buffer)
        made[name] = buffer.getvalue()

    put("stack.npz", lambda f: np.savez(f, X=X, y=y))
    put("packed.npz", lambda f: np.savez_compressed(f, X=X, y=y))
    put("stack.npy", lambda f: np.save(f, X))
    put("stack.mat", lambda f: scipy.io.savemat(f, {"X": X.transpose(1, 2, 0), "y": y}))
    with h5py.File(buffer := io.BytesIO(), "w") as file:
        file["X"], file["y"] = X, y
    made["stack.h5"] = buffer.getvalue()
    made["table.csv"] = "\n".join(",".join(f"{v:.6f}" for v in row) for row in rng.standard_normal((20, 9))).encode()
    put("table.npy", lambda f: np.save(f, rng.standard_normal((20, 3, 3))))
    image = rng.integers(0, 255, (24, 24), dtype=np.uint8)
    for suffix in (".png", ".jpg", ".bmp", ".tiff"):
        made[f"image{suffix}"] = cv2.imencode(suffix, image)[1].tobytes()
    made["walk.amc"] = acclaim.clip_text(6).encode()
    return made


GOOD = good_files()
READERS = {
    "stack.npz": load_spd,
    "packed.npz": load_spd,
    "stack.npy": load_spd,
    "stack.mat": load_spd,
    "stack.h5": load_spd,
    "table.csv": features.read_table,
    "table.npy": features.read_tracks,
    "image.png": features.read_gray,
    "image.jpg": features.read_gray,
    "image.bmp": features.read_gray,
    "image.tiff": features.read_gray,
    "walk.amc": lambda path: features.read_amc(path, path.with_name("skeleton.asf")),
}


APART = (".mat", ".h5")


@st.composite
def damaged(draw, data: bytes) -> bytes:
    """A file with bytes changed, cut out, doubled, or cut off."""
    content = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        if not content:
            break
        at = draw(st.integers(0, len(content) - 1))
        kind = draw(st.sampled_from(["flip", "flip", "set", "cut", "double", "end", "head"]))
        if kind == "flip":
            content[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "set":
            content[at] = draw(st.sampled_from([0, 255, 127, 128, 45, 57]))
        elif kind == "cut":
            del content[at : at + draw(st.integers(1, 64))]
        elif kind == "double":
            content[at:at] = content[at : at + draw(st.integers(1, 64))]
        elif kind == "end":
            del content[at:]
        else:
            near = min(at, 200) % len(content)  # headers hold the sizes
            content[near] = draw(st.integers(0, 255))
    return bytes(content)


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_read_or_refused(name, counted, tmp_path):
    path = tmp_path / name
    (tmp_path / "skeleton.asf").write_text(acclaim.ASF)

    # these two are read by a process of their own, at half a second each
    profile = settings(PROFILE, max_examples=max(3, PROFILE.max_examples // 20)) if path.suffix in APART else PROFILE

    @profile
    @given(damaged(GOOD[name]))
    def run(content):
        counted()
        path.write_bytes(content)
        judge(lambda path: READERS[name](path) is None, path)

    run()


@pytest.mark.parametrize("name", READERS)
def test_the_file_itself_is_read(name, tmp_path):
    (tmp_path / "skeleton.asf").write_text(acclaim.ASF)
    (tmp_path / name).write_bytes(GOOD[name])
    assert READERS[name](tmp_path / name) is not None


def test_odd_labels_beside_a_stack_are_read_or_refused(counted, tmp_path):
    A = np.random.default_rng(0).standard_normal((6, 4, 4))
    path = tmp_path / "stack.npz"

    @PROFILE
    @given(labels(6))
    def run(y):
        counted()
        try:
            np.savez(path, X=A @ A.mT + np.eye(4), y=np.asarray(y), allow_pickle=True)
        except (ValueError, TypeError):
            return  # what NumPy cannot save cannot be read
        judge(lambda path: load_spd(path) is None, path)

    run()


def test_a_damaged_store_keeps_its_good_rows_or_is_refused(counted, tmp_path_factory):
    origin = tmp_path_factory.mktemp("origin")
    store = Store(origin)
    rows = {f"{k:032x}": {"accuracy": k / 7, "name": "a" * k} for k in range(6)}
    for key, row in rows.items():
        store.append(key, row)
    whole = store.path.read_bytes()
    folder = tmp_path_factory.mktemp("damaged")

    @PROFILE
    @given(damaged(whole))
    def run(content):
        counted()
        (folder / store.path.name).write_bytes(content)

        def read(folder):
            again = Store(folder)
            for key, row in rows.items():
                assert key not in again or again[key] == row, "a damaged row was taken for a good one"
            assert again.append("f" * 32, {"accuracy": 1.0})
            assert "f" * 32 in Store(folder)
            return True

        judge(read, folder)

    run()
