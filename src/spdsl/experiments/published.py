"""The accuracies that the paper prints in its Tables 1 to 3: percent, mean and standard deviation over ten draws."""

from __future__ import annotations

_METHODS = (
    *("NN-AIM", "NN-Stein", "NN-LEM", "CDL", "RSR", "LEK-poly", "LEK-exp", "LEK-gauss", "LEML"),
    *("SPDML-AIM", "SPDML-Stein", "SPDML*-AIM", "SPDML*-Stein", "SPDML*-LEM", "SPDSL-AIM", "SPDSL-Stein", "SPDSL-LEM"),
)
_YTC = (
    *((62.85, 3.46), (61.46, 3.52), (63.91, 3.25)),
    *((72.67, 2.47), (72.77, 2.69), (61.85, 3.24), (62.17, 3.52), (56.30, 3.62)),
    *((70.53, 2.95), (64.66, 2.92), (61.57, 3.43)),
    *((64.27, 2.84), (62.31, 3.48), (69.32, 2.04), (71.60, 2.45), (71.03, 2.39), (72.29, 1.58)),
)
_UIUC = (
    *((46.30, 2.90), (42.87, 2.27), (46.30, 2.86)),
    *((54.91, 4.72), (52.41, 4.03), (48.89, 3.29), (49.54, 3.67), (49.63, 3.03)),
    *((52.53, 2.13), (48.09, 1.82), (49.17, 2.37)),
    *((50.00, 3.60), (49.35, 2.47), (50.28, 3.78), (52.31, 3.55), (51.57, 4.16), (52.13, 3.49)),
)
_HDM05 = (
    *((42.70, 1.74), (42.13, 2.63), (43.98, 2.13)),
    *((41.74, 1.92), (41.12, 2.53), (47.22, 1.62), (46.87, 1.72), (48.72, 3.00)),
    *((46.87, 2.19), (47.25, 2.78), (46.21, 2.65)),
    *((47.93, 2.62), (46.35, 2.45), (48.88, 3.18), (48.09, 2.49), (49.02, 2.93), (49.13, 2.74)),
)

#: dataset -> method -> (mean, standard deviation), in percent
PUBLISHED: dict[str, dict[str, tuple[float, float | None]]] = {
    name: dict(zip(_METHODS, figures, strict=True))
    for name, figures in (("ytc", _YTC), ("uiuc", _UIUC), ("hdm05", _HDM05))
}
