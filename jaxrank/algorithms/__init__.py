"""Ranking algorithms, one file each, behind the ask/tell protocol of `jaxrank.types`."""

from jaxrank.algorithms.lucbrank import LUCBRank, LUCBRankState

__all__ = ["LUCBRank", "LUCBRankState"]
