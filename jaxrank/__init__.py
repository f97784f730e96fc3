"""Adaptive coarse ranking in JAX: every item in its tier, with a guarantee, from few noisy judgements."""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from jaxrank import metrics as metrics
    from jaxrank import model_checks as model_checks
    from jaxrank import plots as plots
    from jaxrank import theory as theory
    from jaxrank.aggregation import ByLikelihood as ByLikelihood
    from jaxrank.aggregation import ByLikelihoodState as ByLikelihoodState
    from jaxrank.algorithms import ActiveRanking as ActiveRanking
    from jaxrank.algorithms import ActiveRankingState as ActiveRankingState
    from jaxrank.algorithms import Certificate as Certificate
    from jaxrank.algorithms import Clustering as Clustering
    from jaxrank.algorithms import EvidenceRank as EvidenceRank
    from jaxrank.algorithms import EvidenceRankState as EvidenceRankState
    from jaxrank.algorithms import GapRank as GapRank
    from jaxrank.algorithms import GapRankState as GapRankState
    from jaxrank.algorithms import LUCBRank as LUCBRank
    from jaxrank.algorithms import LUCBRankState as LUCBRankState
    from jaxrank.algorithms import Quicksort as Quicksort
    from jaxrank.algorithms import QuicksortState as QuicksortState
    from jaxrank.algorithms import Uniform as Uniform
    from jaxrank.algorithms import UniformState as UniformState
    from jaxrank.batch import Runs as Runs
    from jaxrank.batch import simulate as simulate
    from jaxrank.btl import btl_scores as btl_scores
    from jaxrank.btl import btl_scores_of_many as btl_scores_of_many
    from jaxrank.btl import fit_btl as fit_btl
    from jaxrank.btl import fit_thurstone as fit_thurstone
    from jaxrank.comparisons import Comparisons as Comparisons
    from jaxrank.confidence import ExplorationRate as ExplorationRate
    from jaxrank.confidence import Mixture as Mixture
    from jaxrank.confidence import kl_lower as kl_lower
    from jaxrank.confidence import kl_upper as kl_upper
    from jaxrank.environments import BernoulliArms as BernoulliArms
    from jaxrank.environments import Duels as Duels
    from jaxrank.environments import ExponentialArms as ExponentialArms
    from jaxrank.environments import GaussianArms as GaussianArms
    from jaxrank.environments import PoissonArms as PoissonArms
    from jaxrank.environments import ScoredDuels as ScoredDuels
    from jaxrank.environments import borda_scores as borda_scores
    from jaxrank.evidence import log_evidence as log_evidence
    from jaxrank.families import Bernoulli as Bernoulli
    from jaxrank.families import Exponential as Exponential
    from jaxrank.families import Gaussian as Gaussian
    from jaxrank.families import Poisson as Poisson
    from jaxrank.fit import Fit as Fit
    from jaxrank.partition import complete as complete
    from jaxrank.partition import cut_points as cut_points
    from jaxrank.partition import quantiles as quantiles
    from jaxrank.partition import sizes as sizes
    from jaxrank.partition import top as top
    from jaxrank.planning import Forecast as Forecast
    from jaxrank.planning import Plan as Plan
    from jaxrank.planning import plan as plan
    from jaxrank.simulation import Run as Run
    from jaxrank.simulation import run as run
    from jaxrank.types import ANYONE as ANYONE
    from jaxrank.types import Algorithm as Algorithm
    from jaxrank.types import Environment as Environment
    from jaxrank.types import Query as Query

# Names are loaded on first use, so that `jaxrank --help` need not wait for JAX.
_HOMES = {
    "aggregation": ["ByLikelihood", "ByLikelihoodState"],
    "algorithms": [
        "ActiveRanking",
        "ActiveRankingState",
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
    ],
    "batch": ["Runs", "simulate"],
    "btl": ["btl_scores", "btl_scores_of_many", "fit_btl", "fit_thurstone"],
    "comparisons": ["Comparisons"],
    "confidence": ["ExplorationRate", "Mixture", "kl_lower", "kl_upper"],
    "environments": [
        "BernoulliArms",
        "Duels",
        "ExponentialArms",
        "GaussianArms",
        "PoissonArms",
        "ScoredDuels",
        "borda_scores",
    ],
    "evidence": ["log_evidence"],
    "families": ["Bernoulli", "Exponential", "Gaussian", "Poisson"],
    "fit": ["Fit"],
    "metrics": [],
    "model_checks": [],
    "partition": ["complete", "cut_points", "quantiles", "sizes", "top"],
    "planning": ["Forecast", "Plan", "plan"],
    "plots": [],
    "simulation": ["Run", "run"],
    "theory": [],
    "types": ["ANYONE", "Algorithm", "Environment", "Query"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF, "metrics", "model_checks", "plots", "theory"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    if name in _HOME_OF:
        value = getattr(importlib.import_module(f"jaxrank.{_HOME_OF[name]}"), name)
    elif name in _HOMES:
        value = importlib.import_module(f"jaxrank.{name}")
    else:
        raise AttributeError(f"module 'jaxrank' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF, *_HOMES])
