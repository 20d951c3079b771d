"""The paper's comparison methods and common alternatives, one file each."""

from spdsl.baselines.alternatives import MDM, TangentSpaceClassifier
from spdsl.baselines.cdl import CDL
from spdsl.baselines.leml import LEML
from spdsl.baselines.sparse import LEK, RSR

__all__ = ["CDL", "LEK", "LEML", "MDM", "RSR", "TangentSpaceClassifier"]
