"""Nearest samples: exact from blocks of distances, or approximate from vectors."""

from spdsl.search.approximate import approximate_nearest
from spdsl.search.nearest import BlockSummary, Nearest, block_total, offer_block, summarise

__all__ = ["BlockSummary", "Nearest", "approximate_nearest", "block_total", "offer_block", "summarise"]
