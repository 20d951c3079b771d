"""From frames, images, joint tracks and signals to SPD matrices, and the readers of their files.

Nothing here needs an optional library until it reads a file of that kind: OpenCV for images and video.
"""

from spdsl.features.amc import find_skeleton, read_amc
from spdsl.features.asf import Skeleton, read_asf
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
from spdsl.features.images import grey_frames, read_grey
from spdsl.features.materials import REGION_FEATURES, dense_sift, material_covariance, region_covariance
from spdsl.features.motion import joint_covariance, motion_covariance, read_tracks
from spdsl.features.recipes import KINDS, Recipe
from spdsl.features.signals import cut_windows, signal_covariance, signal_file_covariance
from spdsl.features.tables import read_table

__all__ = [
    "KINDS",
    "REGION_FEATURES",
    "FaceTrack",
    "FeatureError",
    "Recipe",
    "Skeleton",
    "StreamingCovariance",
    "add_ridge",
    "contact_sheet",
    "crop_face",
    "cut_windows",
    "dense_sift",
    "detect_faces",
    "embed_gaussian",
    "face_covariance",
    "face_crops",
    "find_skeleton",
    "grey_frames",
    "joint_covariance",
    "link_faces",
    "material_covariance",
    "motion_covariance",
    "read_amc",
    "read_asf",
    "read_c3d",
    "read_grey",
    "read_table",
    "read_tracks",
    "region_covariance",
    "set_covariance",
    "set_factors",
    "signal_covariance",
    "signal_file_covariance",
    "track_face",
]
