"""What can be wrong with a model file."""


class ModelFileError(ValueError):
    """A model file that cannot be trusted or read, or a model that has no place in one; the message says why."""


class ModelVersionWarning(UserWarning):
    """A part of a model was saved by another version of the library it comes from."""
