"""Fitted models on disk: one safetensors file with arrays and a JSON header; nothing in it is ever executed."""

from spdsl.models.errors import ModelFileError, ModelVersionWarning
from spdsl.models.parts import savable
from spdsl.models.saving import load, load_with_notes, save

__all__ = ["ModelFileError", "ModelVersionWarning", "load", "load_with_notes", "savable", "save"]
