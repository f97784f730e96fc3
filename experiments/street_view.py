"""The street-view scores: how close the images are to each other.

python experiments/street_view.py [--scores FILE] [--out DIR]
"""

import dataclasses

import figure
import numpy as np
from figure import COLOURS
from instances import PENTILES

import jaxrank as jr

IN_PRINT = (0.05, 1.09, 2.98, 3.77)
"""Scores that the paper prints under its four sample images."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Nothing is random here."""

    seed: int = 0


def compute(config: Config, recorder: figure.Recorder) -> dict:
    """Scores, Borda scores and the gaps between neighbours."""
    scores = np.asarray(recorder.scores)
    borda = np.sort(np.asarray(jr.Duels.btl(scores).means, float))[::-1]
    gaps = -np.diff(borda)
    return {
        "scores": scores.tolist(),
        "borda": borda.tolist(),
        "sum_of_inverse_squared_gaps": float((1 / gaps**2).sum()),
        "gaps_at_boundaries": [float(gaps[cut - 1]) for cut in PENTILES],
        "nearest_to_print": [float(scores[np.abs(scores - shown).argmin()]) for shown in IN_PRINT],
    }


def draw(data: dict, plt):
    """Scores by rank, pentiles in colours, the four printed scores marked."""
    scores = np.sort(np.asarray(data["scores"]))[::-1]
    scores = scores - scores[-1]
    picture, axis = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
    for number, (low, high) in enumerate(zip((0, *PENTILES), (*PENTILES, len(scores)), strict=True)):
        rank = np.arange(low, high)
        axis.plot(rank + 1, scores[low:high], "o", ms=5, color=COLOURS[number], label=f"pentile {number + 1}")
    nearest = [int(np.abs(scores - shown).argmin()) for shown in IN_PRINT]
    axis.plot(
        [place + 1 for place in nearest],
        scores[nearest],
        "o",
        ms=13,
        mfc="none",
        mec="#000000",
        label="nearest to the paper's samples",
    )
    axis.set(xlabel="rank of the image", ylabel="BTL score (lowest is 0)")
    axis.grid(alpha=0.3)
    figure.legend(picture, columns=3)
    return picture


def summary(data: dict) -> str:
    """The paper's 322 million."""
    return (
        f"Sum of 1 / gap^2 over neighbouring Borda scores: {data['sum_of_inverse_squared_gaps'] / 1e6:.1f} million "
        f"(the paper prints 322 million).\nGaps at the pentile boundaries: "
        f"{', '.join(f'{gap:.4f}' for gap in data['gaps_at_boundaries'])}.\nScores nearest to the paper's four samples "
        f"{IN_PRINT}: {', '.join(f'{score:.2f}' for score in data['nearest_to_print'])}."
    )


EXPERIMENT = figure.Experiment(
    name="street_view",
    about="Scores of the street-view images: items that are close together.",
    config=Config(),
    quick=Config(),
    compute=compute,
    draw=draw,
    summary=summary,
    on_street_view=True,
)

if __name__ == "__main__":
    figure.main(EXPERIMENT)
