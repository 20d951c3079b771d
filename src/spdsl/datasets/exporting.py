"""Write the SPD matrices of a folder to one file, atomically; a killed run resumes."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spdsl.datasets.extraction import Outcome, Progress, common_shape, discard, extract, restore_parts, write_stack
from spdsl.datasets.files import REPORT, fingerprint
from spdsl.datasets.folders import folder_label
from spdsl.datasets.hdm05 import hdm05_label
from spdsl.datasets.loading import Label, Source, label_samples
from spdsl.datasets.uiuc import uiuc_label
from spdsl.datasets.ytc import ytc_label
from spdsl.features.errors import FeatureError
from spdsl.features.numpy_files import is_npz, read_npz
from spdsl.features.recipes import Recipe
from spdsl.models.files import check_not_input, written_whole
from spdsl.models.text import csv_cell

#: how the class of a file is read from where it lies and what it is called
LABELS: dict[str, Label] = {
    "folder": folder_label,
    "parent": uiuc_label,
    "hdm05": hdm05_label,
    "ytc": ytc_label,
    "none": lambda sample: "",
}


@dataclass(frozen=True)
class Export:
    """Result of an export: matrices written, files used, and files skipped with the reason."""

    matrices: int
    files: int
    skipped: dict[str, str]
    report: Path


def export_stack(
    folder: str | Path,
    output: str | Path,
    recipe: Recipe,
    *,
    labels: str = "folder",
    jobs: int = 1,
    strict: bool = False,
    progress: Progress | None = None,
) -> Export:
    """Write the SPD stack of a folder to an `.npz` file with `X`, `y` and `files`, and a report beside it.

    Results of single files are kept in a hidden folder beside the output until it is written, so that a killed run
    resumes where it stopped. If the output exists already, only new and changed files are computed.

    Parameters
    ----------
    folder : str or Path
        Where the files are.
    output : str or Path
        The `.npz` file; the report goes to `<output>.report.csv`.
    recipe : Recipe
        What to do with each file.
    labels : str
        A name in `LABELS`: first folder, parent folder, names of HDM05 or of YouTube Celebrities, or none.
    jobs : int
        Files worked on at a time.
    strict : bool
        Write nothing if any file fails.
    progress : callable, optional
        Called with `(outcome, done, total)` after each file.
    """
    folder, output = Path(folder), Path(output)
    if output.suffix != ".npz":
        raise ValueError(f"output {output}: expected a name that ends in .npz")
    source = Source("features", f"files for the recipe {recipe.kind!r}; labels={labels!r} reads their classes")
    samples, classes, skipped = label_samples(folder, recipe, LABELS[labels], source)
    for path in (output, output.with_name(output.name + REPORT)):
        check_not_input(path, *(folder / sample for sample in samples))
    store = output.with_name(f".{output.name}.parts") / recipe.key()
    names = [f"{fingerprint(folder, sample, recipe)}.npz" for sample in samples]
    _restore(output, store, recipe, names)
    good, bad = common_shape(extract(folder, samples, recipe, store, jobs=jobs, progress=progress))
    skipped |= {outcome.sample.as_posix(): outcome.error for outcome in bad}
    report = output.with_name(output.name + REPORT)
    _write_report(report, good, skipped)
    if not good or (strict and skipped):
        first = next(iter(skipped.values()))
        raise FeatureError(f"{len(skipped)} files failed and nothing was written ({report} lists them), e.g. {first}")
    counts = _write_output(output, good, classes, recipe)
    discard(store.parent)
    return Export(sum(counts), len(good), skipped, report)


def stack_origin(path: str | Path) -> tuple[Recipe | None, np.ndarray | None]:
    """The recipe of a stack that `export_stack` wrote, and the file behind each matrix; None where the file has none."""
    if Path(path).suffix.lower() != ".npz" or not is_npz(Path(path)):
        return None, None
    arrays = read_npz(Path(path), only=("recipe", "parts", "files"))
    if "recipe" not in arrays or "parts" not in arrays:
        return None, None
    try:
        return Recipe.from_text(str(arrays["recipe"])), arrays.get("files")
    except (KeyError, TypeError, ValueError, SyntaxError) as error:
        raise FeatureError(f"{path}: {error}") from error


def _restore(output: Path, store: Path, recipe: Recipe, names: Sequence[str]) -> None:
    """Take from an output of the same recipe what is still wanted."""
    try:
        with np.load(output, allow_pickle=False) as saved:
            if str(saved["recipe"]) != recipe.text() or not set(saved["parts"].tolist()) & set(names):
                return
            restore_parts(store, saved["X"], saved["parts"].tolist(), saved["counts"].tolist(), saved["notes"].tolist())
    except Exception:  # none there, damaged, or something else under that name: it is replaced in the end
        return


def _write_output(output: Path, good: Sequence[Outcome], classes: Mapping[Path, str], recipe: Recipe) -> list[int]:
    """Stream the stack into an uncompressed archive, part by part; dates are fixed, so equal runs give equal bytes."""
    with written_whole(output) as file, zipfile.ZipFile(file, "w") as archive:
        with archive.open(zipfile.ZipInfo("X.npy"), "w", force_zip64=True) as member:
            counts = write_stack(member, good)
        arrays = {
            "y": np.repeat([classes[outcome.sample] for outcome in good], counts),
            "files": np.repeat([outcome.sample.as_posix() for outcome in good], counts),
            "parts": np.array([outcome.part.name for outcome in good]),
            "counts": np.array(counts),
            "notes": np.array([outcome.note for outcome in good]),
            "recipe": np.array(recipe.text()),
        }
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return counts


def _write_report(path: Path, good: Sequence[Outcome], skipped: Mapping[str, str]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["file", "status", "note"])
    rows = [(outcome.sample.as_posix(), "used", outcome.note) for outcome in good]
    rows += [(file, "skipped", reason) for file, reason in skipped.items()]
    writer.writerows([csv_cell(cell) for cell in row] for row in sorted(rows))
    with written_whole(path) as file:
        file.write(text.getvalue().encode("utf-8", "surrogateescape"))
