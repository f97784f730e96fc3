"""Instances of the paper."""

import numpy as np

EXPERIMENT_1 = np.array([0.5] + [0.5 - a / 40 for a in range(2, 16)])
"""Mean rewards of the fifteen items of Experiment 1."""
EXPERIMENT_1_BOUNDARIES = (3, 12)
"""Its clusters: top three, middle, bottom three."""
