"""SPD matrices with labels from folders of datasets, or of your own files. Nothing is downloaded."""

from spdsl.datasets.digits import load_digit_sets
from spdsl.datasets.folders import load_image_folder, load_mocap_folder, load_set_folder, load_video_folder
from spdsl.datasets.hdm05 import HDM05_CLASSES, hdm05_name, load_hdm05
from spdsl.datasets.loading import Dataset, SkippedFilesWarning
from spdsl.datasets.protocol import Protocol
from spdsl.datasets.spd import load_spd
from spdsl.datasets.uiuc import load_uiuc
from spdsl.datasets.ytc import load_ytc

__all__ = [
    "HDM05_CLASSES",
    "Dataset",
    "Protocol",
    "SkippedFilesWarning",
    "hdm05_name",
    "load_digit_sets",
    "load_hdm05",
    "load_image_folder",
    "load_mocap_folder",
    "load_set_folder",
    "load_spd",
    "load_uiuc",
    "load_video_folder",
    "load_ytc",
]
