"""Motion clips in Acclaim's AMC format, and where their joints are in space."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from spdsl.features.asf import Bone, Skeleton, read_asf, read_text
from spdsl.features.errors import FeatureError

MAX_BYTES = 1 << 29  # over an hour at 120 frames a second; parsing takes about ten times the file in memory
_MAX_PARENTS = 3  # how far above a clip its skeleton is looked for


def read_amc(path: str | Path, skeleton: str | Path | Skeleton | None = None, *, step: int = 1) -> np.ndarray:
    """Joint positions of a motion clip, by forward kinematics.

    A bone turns by `L = C M C'`, where C is its axis from the skeleton and M its angles in the clip; with G the product
    of all L from the root down to the bone, its far end lies at `p_parent + G offset`.

    Parameters
    ----------
    path : str or Path
        The .amc file.
    skeleton : str, Path or Skeleton, optional
        Its skeleton. By default the .asf file whose name begins the name of the clip, next to the clip or in a folder above:
        `HDM_bd.asf` for `HDM_bd_squat1Reps_001_120.amc`.
    step : int
        Keep every `step`-th frame.

    Returns
    -------
    ndarray (frames, joints, 3)
        Root first, then the far ends of the bones in the skeleton's order; in units of the skeleton's length unit.

    Examples
    --------
    >>> from pathlib import Path
    >>> from spdsl.features import read_amc
    >>> _ = Path("HDM_bd.asf").write_text('''
    ... :units
    ...   length 1.0
    ...   angle deg
    ... :root
    ...   order TX TY TZ RX RY RZ
    ...   axis XYZ
    ...   position 0 0 0
    ...   orientation 0 0 0
    ... :bonedata
    ...   begin
    ...     name leg
    ...     direction 0 -1 0
    ...     length 3
    ...     axis 0 0 0 XYZ
    ...     dof rx
    ...   end
    ... :hierarchy
    ...   begin
    ...     root leg
    ...   end
    ... ''')
    >>> _ = Path("HDM_bd_kick_001_120.amc").write_text('''
    ... :DEGREES
    ... 1
    ... root 0 1 0 0 0 0
    ... leg 90
    ... ''')
    >>> read_amc("HDM_bd_kick_001_120.amc").round(3).tolist()  # one frame: root, end of the leg
    [[[0.0, 1.0, 0.0], [0.0, 1.0, -3.0]]]
    """
    path = Path(path)
    if step < 1:
        raise ValueError(f"step={step}: step must be at least 1")
    if not isinstance(skeleton, Skeleton):
        skeleton = read_asf(find_skeleton(path) if skeleton is None else skeleton)
    angles, root = _read_channels(path, skeleton)
    with np.errstate(over="ignore", invalid="ignore"):  # overflows are reported below
        joints = _positions(skeleton, {name: values[::step] for name, values in angles.items()}, root[::step])
    if not np.isfinite(joints).all():
        raise FeatureError(f"{path}: joint positions overflow; the file is damaged")
    return joints


def find_skeleton(path: str | Path) -> Path:
    """The skeleton of a clip by HDM05's naming: the longest `<beginning of the clip's name>.asf` beside or above it.

    Parameters
    ----------
    path : str or Path
        The .amc file.

    Returns
    -------
    Path

    Examples
    --------
    >>> from pathlib import Path
    >>> from spdsl.features import find_skeleton
    >>> Path("HDM_bd.asf").touch()
    >>> find_skeleton("HDM_bd_kick_001_120.amc").name
    'HDM_bd.asf'
    """
    path = Path(path)
    parts = path.stem.split("_")
    names = ["_".join(parts[:k]) for k in range(len(parts), 0, -1)]
    folders = [path.parent, *path.parent.resolve().parents[:_MAX_PARENTS]]
    for folder in folders:
        for name in names:
            for suffix in (".asf", ".ASF"):
                candidate = folder / (name + suffix)
                if candidate.is_file():
                    return candidate
    expected = names[-2] if len(names) > 1 else names[-1]
    raise FeatureError(
        f"{path}: no skeleton found; put {expected}.asf next to the clip or above it, or pass the path of the .asf file"
    )


# ------------------------------------------------------------------------------------------------------- the text file


def _read_channels(path: Path, skeleton: Skeleton) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Per bone its angles (frames, channels) in radians, and the root's channels (frames, 6) in the file's order."""
    lines = read_text(path, MAX_BYTES, "a clip").split("\n")
    start, degrees = _header(lines, path)
    widths = {bone.name: len(bone.channels) for bone in (skeleton.root, *skeleton.bones) if bone.channels}
    lines = ["" if line.startswith("#") else line for line in lines[start:]]
    values = _regular(lines, widths)
    if values is None:
        _explain(lines, widths, start + 1, path)
    assert values is not None
    to_radians = math.pi / 180 if degrees else 1.0
    root = values.pop("root")
    turns = [channel.startswith("r") for channel in skeleton.root.channels]
    root[:, turns] *= to_radians
    return {name: angles * to_radians for name, angles in values.items()}, root


def _header(lines: list[str], path: Path) -> tuple[int, bool]:
    """Number of the line on which frames begin, and whether angles are degrees."""
    degrees = True
    for number, line in enumerate(lines):
        word = line.strip()
        if word.isdigit():
            return number, degrees
        if word.upper() == ":RADIANS":
            degrees = False
        elif word and word[0] not in "#:":
            break
    raise FeatureError(
        f"{path}: no frames found; expected an Acclaim clip (.amc): a frame number, then a line per bone"
    )


def _regular(lines: list[str], widths: dict[str, int]) -> dict[str, np.ndarray] | None:
    """Parse frames that all look like the first, which is what every writer makes; None when anything is off."""
    names = []
    for line in lines[1:]:
        tokens = line.split()
        if tokens and tokens[0] not in widths:
            break
        if tokens:
            names.append(tokens[0])
    if sorted(names) != sorted(widths):
        return None
    tokens = " ".join(lines).split()
    size = 1 + sum(1 + widths[name] for name in names)
    frames = len(tokens) // size
    numbers = tokens[::size]
    if len(tokens) != frames * size or not all(map(str.isdigit, numbers)):
        return None
    values, at = {}, 1
    for name in names:
        if tokens[at::size].count(name) != frames:
            return None
        columns = [tokens[at + 1 + k :: size] for k in range(widths[name])]
        try:
            values[name] = np.array([list(map(float, column)) for column in columns]).T
        except ValueError:
            return None
        if not np.isfinite(values[name]).all():
            return None
        at += 1 + widths[name]
    return values


def _explain(lines: list[str], widths: dict[str, int], first: int, path: Path) -> None:
    """Find the line at which the frames stop being regular, and raise an error that names it."""
    frame, seen = "", set(widths)
    for number, line in enumerate(lines, first):
        tokens = line.split()
        where = f"{path}, line {number}"
        if len(tokens) == 1 and tokens[0].isdigit():
            _check_complete(frame, widths, seen, path)
            frame, seen = tokens[0], set()
        elif tokens:
            name = tokens[0]
            if name not in widths:
                raise FeatureError(
                    f"{where}: {name[:40]!r} is not a moving bone of the skeleton; check that it is the right skeleton"
                )
            if len(tokens) - 1 != widths[name] or name in seen:
                times = "twice in a frame" if name in seen else "once"
                raise FeatureError(
                    f"{where}: bone {name!r} has {len(tokens) - 1} values, {times}; "
                    f"the skeleton needs {widths[name]}, once; the skeleton is another one or the file is damaged"
                )
            if not all(_is_number(token) for token in tokens[1:]):
                raise FeatureError(f"{where}: {' '.join(tokens[1:])[:60]!r} are not finite numbers")
            seen.add(name)
    _check_complete(frame, widths, seen, path)
    raise FeatureError(f"{path}: the bones change their order between frames; the file is damaged")


def _check_complete(frame: str, widths: dict[str, int], seen: set[str], path: Path) -> None:
    if len(seen) < len(widths):
        lost = next(name for name in widths if name not in seen)
        raise FeatureError(
            f"{path}: frame {frame[:20]} has {len(seen)} of {len(widths)} bones, {lost!r} is missing; "
            "the file is truncated, or the skeleton is another one"
        )


def _is_number(token: str) -> bool:
    try:
        return math.isfinite(float(token))
    except ValueError:
        return False


# ------------------------------------------------------------------------------------------------- forward kinematics


def _positions(skeleton: Skeleton, angles: dict[str, np.ndarray], root: np.ndarray) -> np.ndarray:
    """Joint positions (frames, joints, 3) from the channels, parents before children."""
    frames = len(root)
    joints = np.empty((frames, len(skeleton.bones) + 1, 3))
    turns: list[np.ndarray] = [np.empty(0)] * (len(skeleton.bones) + 1)
    moved = [skeleton.root.channels.index(channel) for channel in ("tx", "ty", "tz")]
    joints[:, 0] = skeleton.position + root[:, moved]
    turned = [k for k, channel in enumerate(skeleton.root.channels) if channel.startswith("r")]
    rest = _rotation(np.array([skeleton.root.axis]), skeleton.root.order)
    turns[0] = rest @ _bone_rotation(skeleton.root, root[:, turned])
    for number in skeleton.sequence:
        bone, parent = skeleton.bones[number], skeleton.parents[number]
        turn = turns[parent]
        if bone.channels:
            axis = _rotation(np.array([bone.axis]), bone.order)[0]
            turn = turn @ (axis @ _bone_rotation(bone, angles[bone.name]) @ axis.T)
        turns[number + 1] = turn
        joints[:, number + 1] = joints[:, parent] + turn @ bone.offset
    return joints / skeleton.unit


def _bone_rotation(bone: Bone, values: np.ndarray) -> np.ndarray:
    """Rotations (frames, 3, 3) from a bone's angles, whose columns follow its rotation channels."""
    full = np.zeros((len(values), 3))
    rotations = [channel for channel in bone.channels if channel.startswith("r")]
    full[:, [["rx", "ry", "rz"].index(channel) for channel in rotations]] = values
    return _rotation(full, bone.order)


def _rotation(angles: np.ndarray, order: str) -> np.ndarray:
    """Rotations (frames, 3, 3) by angles (frames, 3) about x, y, z; the first letter of `order` turns first."""
    result = np.broadcast_to(np.eye(3), (len(angles), 3, 3))
    for letter in order:
        k = "XYZ".index(letter)
        i, j = (k + 1) % 3, (k + 2) % 3
        turn = np.zeros((len(angles), 3, 3))
        turn[:, k, k] = 1.0
        turn[:, i, i] = turn[:, j, j] = np.cos(angles[:, k])
        turn[:, j, i] = np.sin(angles[:, k])
        turn[:, i, j] = -turn[:, j, i]
        result = turn @ result
    return result
