from . import metrics as metrics
from . import plots as plots
from . import theory as theory
from .algorithms import ActiveRanking as ActiveRanking
from .algorithms import ActiveRankingState as ActiveRankingState
from .algorithms import ByLikelihood as ByLikelihood
from .algorithms import ByLikelihoodState as ByLikelihoodState
from .algorithms import Certificate as Certificate
from .algorithms import Clustering as Clustering
from .algorithms import EvidenceRank as EvidenceRank
from .algorithms import EvidenceRankState as EvidenceRankState
from .algorithms import GapRank as GapRank
from .algorithms import GapRankState as GapRankState
from .algorithms import LUCBRank as LUCBRank
from .algorithms import LUCBRankState as LUCBRankState
from .algorithms import Quicksort as Quicksort
from .algorithms import QuicksortState as QuicksortState
from .algorithms import Uniform as Uniform
from .algorithms import UniformState as UniformState
from .core.atomic_write import atomic_write as atomic_write
from .core.boundaries import complete as complete
from .core.boundaries import cut_points as cut_points
from .core.boundaries import quantiles as quantiles
from .core.boundaries import sizes as sizes
from .core.boundaries import top as top
from .core.protocol import ANYONE as ANYONE
from .core.protocol import Algorithm as Algorithm
from .core.protocol import Environment as Environment
from .core.protocol import Query as Query
from .core.pytrees import leaf as leaf
from .core.pytrees import pytree_dataclass as pytree_dataclass
from .core.pytrees import static as static
from .core.tally import Tally as Tally
from .data.comparisons import Comparisons as Comparisons
from .environments import BernoulliArms as BernoulliArms
from .environments import Duels as Duels
from .environments import ExponentialArms as ExponentialArms
from .environments import GaussianArms as GaussianArms
from .environments import PoissonArms as PoissonArms
from .environments import ScoredDuels as ScoredDuels
from .environments import borda_scores as borda_scores
from .environments import paper as paper
from .environments.files import read_numbers as read_numbers
from .fitting import diagnostics as diagnostics
from .fitting.fit import btl_scores as btl_scores
from .fitting.fit import btl_scores_of_many as btl_scores_of_many
from .fitting.fit import fit_btl as fit_btl
from .fitting.fit import fit_thurstone as fit_thurstone
from .fitting.result import Fit as Fit
from .planning.plan import plan as plan
from .planning.plan import typical_duels as typical_duels
from .planning.result import Forecast as Forecast
from .planning.result import Plan as Plan
from .simulation.compilation_cache import keep_compiled_programs as keep_compiled_programs
from .simulation.run import run as run
from .simulation.simulate import Runs as Runs
from .simulation.simulate import simulate as simulate
from .simulation.trial import Run as Run
from .stats.evidence import EvidenceFamily as EvidenceFamily
from .stats.evidence import log_evidence as log_evidence
from .stats.families import Bernoulli as Bernoulli
from .stats.families import Exponential as Exponential
from .stats.families import Family as Family
from .stats.families import Gaussian as Gaussian
from .stats.families import Poisson as Poisson
from .stats.kl_bounds import kl_lower as kl_lower
from .stats.kl_bounds import kl_upper as kl_upper
from .stats.sequences import ConfidenceSequence as ConfidenceSequence
from .stats.sequences import Design as Design
from .stats.sequences import ExplorationRate as ExplorationRate
from .stats.sequences import Mixture as Mixture

__version__: str
__all__ = [
    "ANYONE",
    "ActiveRanking",
    "ActiveRankingState",
    "Algorithm",
    "Bernoulli",
    "BernoulliArms",
    "ByLikelihood",
    "ByLikelihoodState",
    "Certificate",
    "Clustering",
    "Comparisons",
    "ConfidenceSequence",
    "Design",
    "Duels",
    "Environment",
    "EvidenceFamily",
    "EvidenceRank",
    "EvidenceRankState",
    "ExplorationRate",
    "Exponential",
    "ExponentialArms",
    "Family",
    "Fit",
    "Forecast",
    "GapRank",
    "GapRankState",
    "Gaussian",
    "GaussianArms",
    "LUCBRank",
    "LUCBRankState",
    "Mixture",
    "Plan",
    "Poisson",
    "PoissonArms",
    "Query",
    "Quicksort",
    "QuicksortState",
    "Run",
    "Runs",
    "ScoredDuels",
    "Tally",
    "Uniform",
    "UniformState",
    "atomic_write",
    "borda_scores",
    "btl_scores",
    "btl_scores_of_many",
    "complete",
    "cut_points",
    "diagnostics",
    "fit_btl",
    "fit_thurstone",
    "keep_compiled_programs",
    "kl_lower",
    "kl_upper",
    "leaf",
    "log_evidence",
    "metrics",
    "paper",
    "plan",
    "plots",
    "pytree_dataclass",
    "quantiles",
    "read_numbers",
    "run",
    "simulate",
    "sizes",
    "static",
    "theory",
    "top",
    "typical_duels",
]
