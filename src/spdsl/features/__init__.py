"""SPD matrices from frames, images, joint tracks and signals, and readers of their files.

Optional libraries are imported only when a file needs them: OpenCV for images and video.
"""

from spdsl.features.amc import find_skeleton, read_amc
from spdsl.features.asf import Skeleton, read_asf
from spdsl.features.blocks import filter_bank, quadrants, temporal_pyramid
from spdsl.features.c3d import read_c3d
from spdsl.features.covariance import StreamingCovariance, add_ridge, embed_gaussian, set_covariance, set_factors
from spdsl.features.errors import FeatureError
from spdsl.features.faces import (
    FaceTrack,
    contact_sheet,
    crop_face,
    detect_faces,
    face_covariance,
    face_crops,
    link_faces,
    track_face,
)
from spdsl.features.image_sets import image_set_covariance
from spdsl.features.images import as_gray, gray_frames, read_gray
from spdsl.features.materials import REGION_FEATURES, dense_sift, material_covariance, region_covariance
from spdsl.features.motion import joint_covariance, motion_covariance, read_tracks
from spdsl.features.recipes import KINDS, Recipe
from spdsl.features.signals import add_lags, cut_windows, signal_covariance, signal_file_covariance
from spdsl.features.tables import read_table
from spdsl.features.transformers import (
    FaceCovariance,
    JointCovariance,
    MaterialCovariance,
    RegionCovariance,
    SetCovariance,
    SignalCovariance,
)

__all__ = [
    "KINDS",
    "REGION_FEATURES",
    "FaceCovariance",
    "FaceTrack",
    "FeatureError",
    "JointCovariance",
    "MaterialCovariance",
    "Recipe",
    "RegionCovariance",
    "SetCovariance",
    "SignalCovariance",
    "Skeleton",
    "StreamingCovariance",
    "add_lags",
    "add_ridge",
    "as_gray",
    "contact_sheet",
    "crop_face",
    "cut_windows",
    "dense_sift",
    "detect_faces",
    "embed_gaussian",
    "face_covariance",
    "face_crops",
    "filter_bank",
    "find_skeleton",
    "gray_frames",
    "image_set_covariance",
    "joint_covariance",
    "link_faces",
    "material_covariance",
    "motion_covariance",
    "quadrants",
    "read_amc",
    "read_asf",
    "read_c3d",
    "read_gray",
    "read_table",
    "read_tracks",
    "region_covariance",
    "set_covariance",
    "set_factors",
    "signal_covariance",
    "signal_file_covariance",
    "temporal_pyramid",
    "track_face",
]
