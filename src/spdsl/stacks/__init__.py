"""The data behind one small interface, one module a place where it lives."""

from spdsl.stacks.base import Stack
from spdsl.stacks.memory import MemoryStack, enough_memory

__all__ = ["MemoryStack", "Stack", "enough_memory"]
