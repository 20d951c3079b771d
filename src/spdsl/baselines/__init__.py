"""The paper's comparison methods, and what users would pick instead; one file a method."""

from spdsl.baselines.alternatives import MDM, TangentSpaceClassifier
from spdsl.baselines.cdl import CDL
from spdsl.baselines.leml import LEML
from spdsl.baselines.sparse import LEK, RSR

__all__ = ["CDL", "LEK", "LEML", "MDM", "RSR", "TangentSpaceClassifier"]
