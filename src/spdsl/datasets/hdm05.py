"""HDM05 motion capture (Mueller et al. 2007): 130 classes of motion, cut into 2,337 clips of five actors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from spdsl.datasets.folders import split_settings
from spdsl.datasets.loading import Dataset, Source, load_folder
from spdsl.datasets.protocol import Protocol
from spdsl.features.errors import FeatureError
from spdsl.features.recipes import Recipe

SOURCE = Source(
    "HDM05",
    "its cut motion clips, named like HDM_bd_squat1Reps_001_120.amc (2,337 clips), and the skeletons HDM_bd.asf, "
    "HDM_bk.asf, HDM_dg.asf, HDM_mm.asf, HDM_tr.asf beside or above them",
    "http://resources.mpi-inf.mpg.de/HDM05/",
)
PROTOCOL = Protocol()
_NAME = re.compile(r"^HDM_(?P<actor>[a-z]+)_(?P<motion>[A-Za-z0-9]+)_(?P<take>\d+)_(?P<rate>\d+)$")

#: the 130 classes, as the authors cut them
HDM05_CLASSES = (
    "cartwheelLHandStart1Reps",
    "cartwheelLHandStart2Reps",
    "cartwheelRHandStart1Reps",
    "clap1Reps",
    "clap5Reps",
    "clapAboveHead1Reps",
    "clapAboveHead5Reps",
    "depositFloorR",
    "depositHighR",
    "depositLowR",
    "depositMiddleR",
    "elbowToKnee1RepsLelbowStart",
    "elbowToKnee1RepsRelbowStart",
    "elbowToKnee3RepsLelbowStart",
    "elbowToKnee3RepsRelbowStart",
    "grabFloorR",
    "grabHighR",
    "grabLowR",
    "grabMiddleR",
    "hitRHandHead",
    "hopBothLegs1hops",
    "hopBothLegs2hops",
    "hopBothLegs3hops",
    "hopLLeg1hops",
    "hopLLeg2hops",
    "hopLLeg3hops",
    "hopRLeg1hops",
    "hopRLeg2hops",
    "hopRLeg3hops",
    "jogLeftCircle4StepsRstart",
    "jogLeftCircle6StepsRstart",
    "jogOnPlaceStartAir2StepsLStart",
    "jogOnPlaceStartAir2StepsRStart",
    "jogOnPlaceStartAir4StepsLStart",
    "jogOnPlaceStartFloor2StepsRStart",
    "jogOnPlaceStartFloor4StepsRStart",
    "jogRightCircle4StepsLstart",
    "jogRightCircle4StepsRstart",
    "jogRightCircle6StepsLstart",
    "jogRightCircle6StepsRstart",
    "jumpDown",
    "jumpingJack1Reps",
    "jumpingJack3Reps",
    "kickLFront1Reps",
    "kickLFront2Reps",
    "kickLSide1Reps",
    "kickLSide2Reps",
    "kickRFront1Reps",
    "kickRFront2Reps",
    "kickRSide1Reps",
    "kickRSide2Reps",
    "lieDownFloor",
    "punchLFront1Reps",
    "punchLFront2Reps",
    "punchLSide1Reps",
    "punchLSide2Reps",
    "punchRFront1Reps",
    "punchRFront2Reps",
    "punchRSide1Reps",
    "punchRSide2Reps",
    "rotateArmsBothBackward1Reps",
    "rotateArmsBothBackward3Reps",
    "rotateArmsBothForward1Reps",
    "rotateArmsBothForward3Reps",
    "rotateArmsLBackward1Reps",
    "rotateArmsLBackward3Reps",
    "rotateArmsLForward1Reps",
    "rotateArmsLForward3Reps",
    "rotateArmsRBackward1Reps",
    "rotateArmsRBackward3Reps",
    "rotateArmsRForward1Reps",
    "rotateArmsRForward3Reps",
    "runOnPlaceStartAir2StepsLStart",
    "runOnPlaceStartAir2StepsRStart",
    "runOnPlaceStartAir4StepsLStart",
    "runOnPlaceStartFloor2StepsRStart",
    "runOnPlaceStartFloor4StepsRStart",
    "shuffle2StepsLStart",
    "shuffle2StepsRStart",
    "shuffle4StepsLStart",
    "shuffle4StepsRStart",
    "sitDownChair",
    "sitDownFloor",
    "sitDownKneelTieShoes",
    "sitDownTable",
    "skier1RepsLstart",
    "skier3RepsLstart",
    "sneak2StepsLStart",
    "sneak2StepsRStart",
    "sneak4StepsLStart",
    "sneak4StepsRStart",
    "squat1Reps",
    "squat3Reps",
    "staircaseDown3Rstart",
    "staircaseUp3Rstart",
    "standUpKneelToStand",
    "standUpLieFloor",
    "standUpSitChair",
    "standUpSitFloor",
    "standUpSitTable",
    "throwBasketball",
    "throwFarR",
    "throwSittingHighR",
    "throwSittingLowR",
    "throwStandingHighR",
    "throwStandingLowR",
    "turnLeft",
    "turnRight",
    "walk2StepsLstart",
    "walk2StepsRstart",
    "walk4StepsLstart",
    "walk4StepsRstart",
    "walkBackwards2StepsRstart",
    "walkBackwards4StepsRstart",
    "walkLeft2Steps",
    "walkLeft3Steps",
    "walkLeftCircle4StepsLstart",
    "walkLeftCircle4StepsRstart",
    "walkLeftCircle6StepsLstart",
    "walkLeftCircle6StepsRstart",
    "walkOnPlace2StepsLStart",
    "walkOnPlace2StepsRStart",
    "walkOnPlace4StepsLStart",
    "walkOnPlace4StepsRStart",
    "walkRightCircle4StepsLstart",
    "walkRightCircle4StepsRstart",
    "walkRightCircle6StepsLstart",
    "walkRightCircle6StepsRstart",
    "walkRightCrossFront2Steps",
    "walkRightCrossFront3Steps",
)
_KNOWN = frozenset(HDM05_CLASSES)


def hdm05_name(sample: str | Path) -> dict[str, str]:
    """Actor, motion, take and rate from the name of a clip.

    Parameters
    ----------
    sample : str or Path

    Returns
    -------
    dict

    Examples
    --------
    >>> from spdsl.datasets import hdm05_name
    >>> hdm05_name("HDM_bd_squat1Reps_001_120.amc")
    {'actor': 'bd', 'motion': 'squat1Reps', 'take': '001', 'rate': '120'}
    """
    match = _NAME.match(Path(sample).stem)
    if match is None:
        raise FeatureError(f"{sample}: not named like a cut clip of HDM05 (HDM_bd_squat1Reps_001_120.amc)")
    return match.groupdict()


def hdm05_label(sample: Path) -> str:
    """Class of a clip, one of `HDM05_CLASSES`."""
    motion = hdm05_name(sample)["motion"]
    if motion not in _KNOWN:
        raise FeatureError(f"{sample}: {motion!r} is not one of the 130 classes of the cut HDM05 clips")
    return motion


def load_hdm05(folder: str | Path, **settings: Any) -> Dataset:
    """Load HDM05 as the paper does: 93 x 93 joint covariances, half of each class to train, 10 draws.

    Parameters
    ----------
    folder : str or Path
        The cut clips in AMC format (or C3D), at any depth, with the skeletons beside or above them. `hdm05_name` reads
        the actor of a clip from `Dataset.files`.
    **settings
        `cache`, `jobs`, `errors`, `progress` as in `load_image_folder`; the rest are arguments of `motion_covariance`.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import os
    >>> import numpy as np
    >>> from spdsl.datasets import load_hdm05
    >>> os.mkdir("HDM05")  # stands for the folder of the cut clips
    >>> for take in (1, 2):
    ...     np.save(f"HDM05/HDM_bd_squat1Reps_00{take}_120.npy", np.random.default_rng(take).random((50, 31, 3)))
    >>> data = load_hdm05("HDM05", cache=False)
    >>> data.X.shape, data.y.tolist()
    ((2, 93, 93), ['squat1Reps', 'squat1Reps'])
    """
    shared, options = split_settings(settings)
    return load_folder(folder, Recipe("motion", options), hdm05_label, SOURCE, protocol=PROTOCOL, **shared)
