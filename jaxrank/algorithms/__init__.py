"""Ranking algorithms, one file each, behind the ask/tell protocol of `jaxrank.core.protocol`."""

from jaxrank.algorithms._pair_evidence import Certificate
from jaxrank.algorithms.active_ranking import ActiveRanking, ActiveRankingState
from jaxrank.algorithms.by_likelihood import ByLikelihood, ByLikelihoodState
from jaxrank.algorithms.evidence_rank import EvidenceRank, EvidenceRankState
from jaxrank.algorithms.gap_rank import Clustering, GapRank, GapRankState
from jaxrank.algorithms.lucbrank import LUCBRank, LUCBRankState
from jaxrank.algorithms.quicksort import Quicksort, QuicksortState
from jaxrank.algorithms.uniform import Uniform, UniformState

__all__ = [
    "ActiveRanking",
    "ActiveRankingState",
    "ByLikelihood",
    "ByLikelihoodState",
    "Certificate",
    "Clustering",
    "EvidenceRank",
    "EvidenceRankState",
    "GapRank",
    "GapRankState",
    "LUCBRank",
    "LUCBRankState",
    "Quicksort",
    "QuicksortState",
    "Uniform",
    "UniformState",
]
