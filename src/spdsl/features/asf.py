"""Skeletons in Acclaim's ASF format: the bones, their rest pose and their tree."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spdsl.features.errors import FeatureError

MAX_BYTES = 1 << 22  # real skeletons take some 10 kB; anything near this is not a skeleton
MAX_BONES = 1000
_AXES = re.compile(r"^(?!.*(.).*\1)[XYZ]{3}$")  # a permutation of XYZ
_ROTATIONS = ("rx", "ry", "rz")
_TRANSLATIONS = ("tx", "ty", "tz")


@dataclass(frozen=True)
class Bone:
    """One bone: rest direction and length, the frame in which it turns (radians), and its channels in an AMC file."""

    name: str
    offset: np.ndarray
    axis: tuple[float, float, float]
    order: str
    channels: tuple[str, ...]


@dataclass(frozen=True)
class Skeleton:
    """A tree of bones; joint 0 is the root, joint `i + 1` the far end of `bones[i]`.

    Attributes
    ----------
    unit : float
        The file's length unit; joint positions are divided by it.
    root : Bone
        The root, with a zero offset: its channels, its axis, its rest orientation.
    position : ndarray (3,)
        Where the root rests.
    bones : tuple of Bone
        In the order of the file, which is the order of the joints.
    parents : tuple of int
        `parents[i]` is the joint at the near end of `bones[i]`.
    sequence : tuple of int
        Bone numbers, parents before children.
    degrees : bool
        Whether the file's angles are degrees.
    """

    unit: float
    root: Bone
    position: np.ndarray
    bones: tuple[Bone, ...]
    parents: tuple[int, ...]
    sequence: tuple[int, ...]
    degrees: bool

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints, `root` first."""
        return ("root", *(bone.name for bone in self.bones))


def read_asf(path: str | Path) -> Skeleton:
    """Read a skeleton from an ASF file.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Skeleton

    Examples
    --------
    >>> from pathlib import Path
    >>> from spdsl.features import read_asf
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
    >>> read_asf("HDM_bd.asf").joint_names
    ('root', 'leg')
    """
    path = Path(path)
    text = read_text(path, MAX_BYTES, "a skeleton")
    sections = _sections(text)
    try:
        return _skeleton(sections)
    except _Problem as problem:
        raise FeatureError(f"{path}: {problem}; expected an Acclaim skeleton (.asf)") from None


class _Problem(Exception):
    """What is wrong with the text, before the file's name is put in front."""


def read_text(path: Path, limit: int, what: str) -> str:
    """The text of a file, refused when larger than `limit` bytes. Latin-1: old files hold umlauts in comments."""
    with open(path, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise FeatureError(f"{path}: larger than {limit >> 20} MiB, too large for {what}; cut it into shorter files")
    return data.decode("latin-1")


def _sections(text: str) -> dict[str, list[list[str]]]:
    """Split into `:name` sections of token lists; what follows the name on its own line counts as a line."""
    sections: dict[str, list[list[str]]] = {}
    current: list[list[str]] = []
    for line in text.split("\n"):
        tokens = line.split("#", 1)[0].replace("(", " ( ").replace(")", " ) ").split()
        if not tokens:
            continue
        if tokens[0].startswith(":"):
            current = sections.setdefault(tokens[0][1:].lower(), [])
            tokens = tokens[1:]
        if tokens:
            current.append(tokens)
    return sections


def _skeleton(sections: dict[str, list[list[str]]]) -> Skeleton:
    for name in ("root", "bonedata", "hierarchy"):
        if name not in sections:
            raise _Problem(f"no :{name} section")
    units = {line[0].lower(): line[1] for line in sections.get("units", []) if len(line) > 1}
    unit = _numbers([units.get("length", "1")], 1, "the length unit")[0]
    if unit <= 0:
        raise _Problem(f"the length unit is {unit}")
    degrees = units.get("angle", "deg").lower().startswith("deg")
    to_radians = math.pi / 180 if degrees else 1.0
    bones = tuple(_bone(lines, to_radians) for lines in _bone_blocks(sections["bonedata"]))
    names = [bone.name for bone in bones]
    if len(set(names)) < len(names) or "root" in names:
        raise _Problem("two bones have the same name")
    root, position = _root(sections["root"], to_radians)
    parents, sequence = _tree(sections["hierarchy"], names)
    return Skeleton(unit, root, position, bones, parents, sequence, degrees)


def _bone_blocks(lines: list[list[str]]) -> Iterator[dict[str, list[str]]]:
    """The `begin ... end` blocks, each as keyword -> arguments."""
    block: dict[str, list[str]] | None = None
    count = 0
    for tokens in lines:
        word = tokens[0].lower()
        if word == "begin":
            block = {}
        elif word == "end" and block is not None:
            count += 1
            if count > MAX_BONES:
                raise _Problem(f"more than {MAX_BONES} bones")
            yield block
            block = None
        elif block is not None:
            block.setdefault(word, tokens[1:])
    if block is not None:
        raise _Problem("a bone has no 'end'")
    if count == 0:
        raise _Problem("no bones")


def _bone(block: dict[str, list[str]], to_radians: float) -> Bone:
    name = (block.get("name") or [""])[0]
    if not name:
        raise _Problem("a bone has no name")
    direction = np.array(_numbers(block.get("direction", []), 3, f"the direction of bone {name!r}"))
    length = _numbers(block.get("length", []), 1, f"the length of bone {name!r}")[0]
    axis = block.get("axis", [])
    angles = _numbers(axis[:3], 3, f"the axis of bone {name!r}")
    order = _axis_order(axis[3:4], f"bone {name!r}")
    channels = tuple(word.lower() for word in block.get("dof", []))
    if len(set(channels)) < len(channels) or not set(channels) <= set(_ROTATIONS):
        raise _Problem(
            f"bone {name!r} has the channels {' '.join(channels)}: only rx, ry, rz, each once, are supported"
        )
    x, y, z = (angle * to_radians for angle in angles)
    return Bone(name, direction * length, (x, y, z), order, channels)


def _root(lines: list[list[str]], to_radians: float) -> tuple[Bone, np.ndarray]:
    entries = {tokens[0].lower(): tokens[1:] for tokens in lines}
    channels = tuple(word.lower() for word in entries.get("order", []))
    if sorted(channels) != sorted(_TRANSLATIONS + _ROTATIONS):
        raise _Problem(f"the root has the order {' '.join(channels) or '(none)'}; expected TX TY TZ RX RY RZ")
    order = _axis_order(entries.get("axis", []), "the root")
    angles = _numbers(entries.get("orientation", ["0"] * 3), 3, "the orientation of the root")
    position = np.array(_numbers(entries.get("position", ["0"] * 3), 3, "the position of the root"))
    x, y, z = (angle * to_radians for angle in angles)
    return Bone("root", np.zeros(3), (x, y, z), order, channels), position


def _axis_order(tokens: list[str], owner: str) -> str:
    order = tokens[0].upper() if tokens else "XYZ"
    if not _AXES.match(order):
        raise _Problem(f"{owner} has the axis order {order[:20]!r}")
    return order


def _tree(lines: list[list[str]], names: list[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Parent joint of every bone, and the bones with parents first."""
    joint = {"root": 0} | {name: i + 1 for i, name in enumerate(names)}
    parents = [-1] * len(names)
    children: dict[int, list[int]] = {}
    for tokens in lines:
        if tokens[0].lower() in ("begin", "end") and len(tokens) == 1:
            continue
        unknown = [word for word in tokens if word not in joint]
        if unknown:
            raise _Problem(f"the hierarchy names {unknown[0][:40]!r}, which is not a bone")
        for word in tokens[1:]:
            bone = joint[word] - 1
            if bone < 0 or parents[bone] >= 0:
                raise _Problem(f"{word!r} has two parents in the hierarchy")
            parents[bone] = joint[tokens[0]]
            children.setdefault(joint[tokens[0]], []).append(bone)
    sequence: list[int] = []
    reached = [0]
    for at in reached:  # grows while it is walked: breadth first, each bone once since it has one parent
        sequence += children.get(at, [])
        reached += [bone + 1 for bone in children.get(at, [])]
    if len(sequence) < len(names):
        lost = next(name for i, name in enumerate(names) if i not in set(sequence))
        raise _Problem(f"bone {lost!r} is not connected to the root")
    return tuple(parents), tuple(sequence)


def _numbers(tokens: list[str], count: int, what: str) -> list[float]:
    try:
        values = [float(token) for token in tokens[:count]]
    except ValueError:
        raise _Problem(f"{what} is {' '.join(tokens)[:40]!r}, not {count} numbers") from None
    if len(values) < count or not all(abs(value) < 1e9 for value in values):
        raise _Problem(f"{what} is {' '.join(tokens)[:40]!r}, not {count} finite numbers")
    return values
