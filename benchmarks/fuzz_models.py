"""Damage model files at random and read them: every one must be a clear error, or the very model that was saved.

    python benchmarks/fuzz_models.py            # 2,000 damaged files
    python benchmarks/fuzz_models.py --only pipelines
    python benchmarks/fuzz_models.py --tiny

The last kind of damage edits header or arrays and then makes the digest agree, as only an attacker would; such a file may be
another model, but reading it must raise nothing except ModelFileError.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from pyriemann.estimation import Covariances
from pyriemann.tangentspace import TangentSpace
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import spdsl
from spdsl import SPDSL, LogVectors, MaterialCovariance, Recenter, Regularize, SignalCovariance
from spdsl.models import ModelFileError, container
from spdsl.models.encoding import Encoder

Rng = np.random.Generator
METHODS = ("NN-AIM", "CDL", "RSR", "LEML", "SPDML-Stein", "SPDSL-LEM", "SPDSL-LEM+SVM", "SPDSL-LEM+LR", "SPDSL-LEM+LDA")
#: pipelines, and whether they take images
PIPELINES: dict[str, tuple[Callable[[], Any], bool]] = {
    "images": (lambda: make_pipeline(MaterialCovariance(32), Regularize(), SPDSL(4, max_iter=3)), True),
    "signals": (lambda: make_pipeline(SignalCovariance(lags=(1, 2)), Regularize(), SPDSL(4, max_iter=3)), False),
    "recentered": (
        lambda: make_pipeline(SignalCovariance(), Recenter(), SPDSL(3, classifier="svm", max_iter=3)),
        False,
    ),
    "vectors": (lambda: make_pipeline(SignalCovariance(), LogVectors(), StandardScaler(), PCA(3), SVC()), False),
    "tangent": (lambda: make_pipeline(Covariances("oas"), TangentSpace(), LogisticRegression()), False),
}


def flip_bits(raw: bytes, rng: Rng) -> bytes:
    """One to three bits."""
    bad = bytearray(raw)
    for place in rng.integers(len(raw), size=rng.integers(1, 4)):
        bad[place] ^= 1 << rng.integers(8)
    return bytes(bad)


def flip_header_bit(raw: bytes, rng: Rng) -> bytes:
    """A bit of the length or the header."""
    bad = bytearray(raw)
    bad[rng.integers(8 + header_length(raw))] ^= 1 << rng.integers(8)
    return bytes(bad)


def truncate(raw: bytes, rng: Rng) -> bytes:
    return raw[: rng.integers(len(raw))]


def extend(raw: bytes, rng: Rng) -> bytes:
    return raw + rng.bytes(int(rng.integers(1, 100)))


def drop_bytes(raw: bytes, rng: Rng) -> bytes:
    start = rng.integers(len(raw) - 1)
    return raw[:start] + raw[start + rng.integers(1, 20) :]


def zero_block(raw: bytes, rng: Rng) -> bytes:
    """As after a crash of the machine."""
    start = int(rng.integers(len(raw)))
    end = min(len(raw), start + int(rng.integers(1, 512)))
    return raw[:start] + bytes(end - start) + raw[end:]


def swap_blocks(raw: bytes, rng: Rng) -> bytes:
    a, b, c = sorted(rng.integers(len(raw) + 1, size=3))
    return raw[:a] + raw[b:c] + raw[a:b] + raw[c:]


def edit_digit(raw: bytes, rng: Rng) -> bytes:
    """Another digit somewhere in the header: sizes, offsets, parameters, versions, digest."""
    digits = [k for k in range(8, 8 + header_length(raw)) if raw[k : k + 1].isdigit()]
    place = digits[rng.integers(len(digits))]
    return raw[:place] + b"%d" % rng.integers(10) + raw[place + 1 :]


def edit_length(raw: bytes, rng: Rng) -> bytes:
    """Another length of the header, small, huge or near."""
    n = header_length(raw)
    length = rng.choice(np.array([0, n - 1, n + 1, n + 8, len(raw), 2**31, 2**62], dtype=np.uint64))
    return int(length).to_bytes(8, "little") + raw[8:]


def swap_sizes(raw: bytes, rng: Rng) -> bytes:
    """Shapes, types or places of two arrays exchanged in the header."""
    n = header_length(raw)
    header = json.loads(raw[8 : 8 + n])
    names = [name for name in header if name != "__metadata__"]
    one, two = rng.choice(names, 2, replace=False)
    key = str(rng.choice(["shape", "dtype", "data_offsets"]))
    header[one][key], header[two][key] = header[two][key], header[one][key]
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + raw[8 + n :]


DAMAGE: dict[str, Callable[[bytes, Rng], bytes]] = {
    "bits flipped": flip_bits,
    "header bit flipped": flip_header_bit,
    "cut off": truncate,
    "extended": extend,
    "bytes dropped": drop_bytes,
    "block zeroed": zero_block,
    "blocks swapped": swap_blocks,
    "digit of the header": edit_digit,
    "length of the header": edit_length,
    "sizes swapped": swap_sizes,
}
RESEALED = "edited and resealed"


def header_length(raw: bytes) -> int:
    return int.from_bytes(raw[:8], "little")


def reseal(path: Path, rng: Rng) -> None:
    """Change one node of the header or one array, and write a digest that agrees."""
    header, arrays = container.read(path)
    nodes = list(_nodes(header["model"]))
    holder, key = nodes[rng.integers(len(nodes))]
    others = [
        None,
        -1,
        2.5,
        "os.system",
        [],
        {},
        {"tuple": []},
        {"array": next(iter(arrays))},
        {"graph": 9, "same": []},
    ]
    choice = rng.integers(3)
    if choice == 0:
        holder[key] = others[rng.integers(len(others))]
    elif choice == 1:
        del holder[key]
    else:
        name = str(rng.choice(list(arrays)))
        arrays[name] = arrays[name].astype(str(rng.choice(["float32", "int64", "uint8"]))).reshape(-1)
    container.write(path, header, arrays)


def _nodes(node: Any) -> Any:
    """Every (holder, key) below a JSON node."""
    if isinstance(node, dict | list):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            yield node, key
            yield from _nodes(node[key])


def fingerprint(model: Any, X: Any) -> tuple[str, bytes]:
    """Everything that a model consists of, and what it says of X."""
    encoder = Encoder()
    tree = encoder.estimator(model, "model")
    return container.digest({"model": tree}, encoder.arrays), model.predict(X).tobytes()


def outcome(path: Path, expected: tuple[str, bytes] | None, X: Any) -> str:
    """What comes of reading a file."""
    try:
        model = spdsl.load(path)
    except ModelFileError as error:
        return "clear error" if str(error).startswith(f"{path}: ") else f"NO PATH IN: {error}"
    except Exception as error:
        return f"{type(error).__name__.upper()}: {error}"
    if expected is None:
        with suppress(Exception):
            model.predict(X)  # whatever it says, it must not take the process down
        return "a model"
    return "identical model" if fingerprint(model, X) == expected else "ANOTHER MODEL"


def fitted_models(rng: Rng, only: str | None, *, tiny: bool) -> Iterator[tuple[Any, Any]]:
    """Fitted models, each with samples that it takes."""
    labels = np.arange(40) % 4
    y = np.array(["a", "b", "c", "d"])[labels]
    signals = rng.standard_normal((40, 6, 20)) * (1 + np.eye(6)[labels])[:, :, None]
    X = signals @ signals.mT / 20
    if only != "pipelines":
        for name in METHODS[-3:] if tiny else METHODS:
            yield spdsl.METHODS[name].factory().fit(X[:20], y[:20]), X
    if only != "methods":
        images = [rng.integers(0, 256, (32, 32)).astype(np.uint8) // (1 + label) for label in labels[:8]]
        for name in list(PIPELINES)[1:3] if tiny else PIPELINES:
            make, of_images = PIPELINES[name]
            samples = images if of_images else signals
            yield make().fit(samples, y[: len(samples)]), samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("methods", "pipelines"))
    parser.add_argument("--tiny", action="store_true", help="a run of a few seconds")
    args = parser.parse_args()
    count, rng = 60 if args.tiny else args.count, np.random.default_rng(args.seed)
    warnings.simplefilter("ignore")
    tally: dict[str, Counter[str]] = {kind: Counter() for kind in (*DAMAGE, RESEALED)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        saved = []
        for model, X in fitted_models(rng, args.only, tiny=args.tiny):
            spdsl.save(model, path)
            read = fingerprint(spdsl.load(path), X)  # which may add names that attributes have in other versions
            assert read[1] == fingerprint(model, X)[1]
            saved.append((path.read_bytes(), read, X))
        for k in range(count):
            kind = list(tally)[k % len(tally)]
            raw, expected, X = saved[rng.integers(len(saved))]
            if kind == RESEALED:
                path.write_bytes(raw)
                reseal(path, rng)
            else:
                damaged = raw
                while damaged == raw:
                    damaged = DAMAGE[kind](raw, rng)
                path.write_bytes(damaged)
            tally[kind][outcome(path, None if kind == RESEALED else expected, X)] += 1
    for kind, found in tally.items():
        print(f"{kind:22}", ", ".join(f"{n} {what}" for what, n in found.most_common()))
    total = sum(tally.values(), Counter())
    bad = sum(n for what, n in total.items() if what[:2].isupper())
    print(
        f"{count} damaged files: {total['clear error']} clear errors, {total['identical model']} identical models, {bad} bad"
    )
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
