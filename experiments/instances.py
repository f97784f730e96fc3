"""The instances of the paper."""

import dataclasses
import hashlib
from pathlib import Path

import numpy as np

import jaxrank as jr

EXPERIMENT_1, TOP_AND_BOTTOM_3 = jr.paper.EXPERIMENT_1, jr.paper.EXPERIMENT_1_BOUNDARIES
PENTILES = (20, 40, 60, 80)


@dataclasses.dataclass(frozen=True)
class Instance:
    """BTL scores of items, and where they are from."""

    scores: np.ndarray
    name: str

    @property
    def digest(self) -> str:
        """Tells instances apart."""
        return hashlib.sha256(np.asarray(self.scores, "<f8").tobytes()).hexdigest()[:16]


def street_view(path: Path | None) -> Instance:
    """Scores of the 100 street-view images from a file; without one, a synthetic stand-in.

    The stand-in is 100 standard normals, sorted and mapped to [0, 3.9]: as close together as the images, with other
    gaps at the boundaries.
    """
    if path is None:
        normal = np.sort(np.random.default_rng(2245).normal(size=100))
        scores = 3.9 * (normal - normal[0]) / (normal[-1] - normal[0])
        return Instance(scores, "SYNTHETIC STAND-IN for the street-view scores (no file of scores was given)")
    scores = jr.read_numbers(path, "scores")
    if len(scores) != 100:
        raise ValueError(f"scores must hold 100 numbers, one per image, got {len(scores)} in {str(path)!r}")
    return Instance(scores, f"street-view scores of {path.name}")
