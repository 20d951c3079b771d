"""A page for the docs from what `spdsl reproduce` wrote: the table, and its figures made small.

python benchmarks/results_page.py spdsl-results/hdm05 docs/results/hdm05.md --command "spdsl reproduce --data hdm05.npz ..."
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image

from spdsl.experiments.outputs import read_results

SHOWN = ("python", "spdsl", "numpy", "scipy", "scikit-learn", "processor", "cores")
FIGURES = {
    "methods": "All methods: every split, mean and standard deviation",
    "neighbours-accuracy": "Accuracy against v_b (the paper's Fig. 6)",
    "neighbours-seconds": "Seconds per iteration against v_b (Fig. 7); other work ran on the machine at the time",
    "convergence": "The objective over the iterations (Fig. 8)",
    "similarity-before": "Similarities of test samples, sorted by class, before learning",
    "similarity-after": "The same after learning",
    "embedding-before": "Test samples in the plane (t-SNE on the distances) before learning",
    "embedding-after": "The same after learning",
}


def shrink(source: Path, target: Path) -> None:
    """A picture of at most 720 pixels in 64 colours: a fifth of the bytes, and the eye sees no difference."""
    with Image.open(source) as picture:
        picture = picture.convert("RGB")
        picture.thumbnail((720, 1200))
        picture.quantize(64).save(target, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what `spdsl reproduce` wrote")
    parser.add_argument("page", type=Path)
    parser.add_argument("--command", required=True, help="the command that made it")
    parser.add_argument("--title")
    options = parser.parse_args()
    results = read_results(options.folder)
    images = options.page.parent / "img"
    images.mkdir(parents=True, exist_ok=True)
    head, _, table = (options.folder / "table.md").read_text().partition("\n")
    title = options.title or head.lstrip("# ")
    made_with = {name: results.environment[name] for name in SHOWN if name in results.environment}
    machine = ", ".join(f"{name} {value}" for name, value in made_with.items())
    lines = [f"# {title}", "", table.strip(), "", f"```console\n{options.command}\n```", ""]
    lines += [f"{results.seconds:.0f} s of work in all. {machine}.", ""]
    for name, caption in FIGURES.items():
        source = options.folder / "figures" / f"{name}.png"
        if source.exists():
            target = images / f"{options.page.stem}-{name}.png"
            shrink(source, target)
            lines += [f"![{caption}](img/{target.name})", "", f"*{caption}.*", ""]
    options.page.write_text("\n".join(lines).rstrip() + "\n")
    print(
        f"{options.page}: {sum(p.stat().st_size for p in images.glob(f'{options.page.stem}-*')) >> 10} KiB of pictures"
    )


if __name__ == "__main__":
    main()
