"""Where the samples live (memory, disk, factors, a cluster), and the samples seen through W."""

from spdsl.data.base import Data, View
from spdsl.data.blocks import BlockData
from spdsl.data.checked_once import CheckedOnce
from spdsl.data.cluster import ClusterData
from spdsl.data.cluster_client import ClusterError
from spdsl.data.disk import DiskData
from spdsl.data.duplicates import first_copies
from spdsl.data.factored import FactoredSPD
from spdsl.data.memory import MemoryData
from spdsl.data.neighbor_search import search_blocks, upper_blocks
from spdsl.data.place import as_data, at_work, checked_data
from spdsl.data.validation import check_spd, regularize

__all__ = [
    "BlockData",
    "CheckedOnce",
    "ClusterData",
    "ClusterError",
    "Data",
    "DiskData",
    "FactoredSPD",
    "MemoryData",
    "View",
    "as_data",
    "at_work",
    "check_spd",
    "checked_data",
    "first_copies",
    "regularize",
    "search_blocks",
    "upper_blocks",
]
