"""Errors and warnings about model files."""


class ModelFileError(ValueError):
    """A model file that cannot be trusted or read, or a model that cannot be stored; the message says why.

    Examples
    --------
    >>> import spdsl
    >>> with open("notes.txt", "w") as file:
    ...     _ = file.write("no model")
    >>> spdsl.load("notes.txt")
    Traceback (most recent call last):
        ...
    spdsl.models.errors.ModelFileError: notes.txt: truncated, or not a model file of spdsl (a safetensors file)
    """


class ModelVersionWarning(UserWarning):
    """A part of a model was saved with another version of its library."""
