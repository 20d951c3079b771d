"""The data behind one small interface, one module a place where it lives."""

from spdsl.stacks.base import Stack
from spdsl.stacks.factored import FactoredStack
from spdsl.stacks.memory import MemoryStack, enough_memory
from spdsl.stacks.streamed import RereadStack, StreamedStack

__all__ = ["FactoredStack", "MemoryStack", "RereadStack", "Stack", "StreamedStack", "enough_memory"]
