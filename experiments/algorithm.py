"""A picture of LUCBRank at work: twenty items, boundaries 5 and 15, confidence intervals and critical items.

python experiments/algorithm.py [--out DIR]
"""

import dataclasses

import figure
import jax
import numpy as np
from figure import COLOURS

import jaxrank as jr


@dataclasses.dataclass(frozen=True)
class Config:
    """What is run."""

    boundaries: tuple[int, ...] = (5, 15)
    num_items: int = 20
    delta: float = 0.1
    epsilon: float = 0.1
    early: int = 60
    """Rounds before the first picture; the second is taken when the first boundary is settled."""
    seed: int = 5


def compute(config: Config, recorder: figure.Recorder) -> dict:
    """Two states of one run."""
    means = np.linspace(0.95, 0.05, config.num_items)
    algorithm = jr.LUCBRank(
        num_items=config.num_items, boundaries=config.boundaries, delta=config.delta, epsilon=config.epsilon
    )
    arms = jr.BernoulliArms(means=means)
    init_key, ask_key, answer_key = jax.random.split(jax.random.key(config.seed), 3)
    ask, tell, draw_answers = jax.jit(algorithm.ask), jax.jit(algorithm.tell), jax.jit(arms.draw)
    state, turn, states = algorithm.init(init_key), 0, []
    while not bool(algorithm.done(state)):
        query = ask(jax.random.fold_in(ask_key, turn), state)
        state = tell(state, query, draw_answers(jax.random.fold_in(answer_key, turn), query))
        turn += 1
        early = not states and int(state.rounds) == config.early
        if early or (len(states) == 1 and not bool(state.active.all())):
            states.append(_seen(algorithm, state))
    states.append(_seen(algorithm, state))
    return {"true_means": means.tolist(), "states": states[:2], "end": states[-1]}


def _seen(algorithm: jr.LUCBRank, state: jr.LUCBRankState) -> dict:
    fields = {"rank": state.rank, "mean": state.tally.means, "lower": state.bounds.lower, "upper": state.bounds.upper}
    fields |= {"pulls": state.tally.pulls, "active": state.active, "critical": state.critical}
    seen = {name: np.asarray(value).tolist() for name, value in fields.items()}
    return {**seen, "rounds": int(state.rounds), "samples": int(np.asarray(state.tally.pulls).sum())}


def draw(data: dict, plt):
    """Intervals by rank, coloured by cluster, critical items marked."""
    picture, axes = plt.subplots(2, 1, figsize=(6.8, 7.4), layout="constrained", sharex=True)
    cuts = data["config"]["boundaries"]
    for axis, state in zip(axes, data["states"], strict=True):
        rank, mean = np.asarray(state["rank"]), np.asarray(state["mean"])
        reach = np.stack([mean - np.asarray(state["lower"]), np.asarray(state["upper"]) - mean])
        for number, (low, high) in enumerate(zip((0, *cuts), (*cuts, len(rank)), strict=True)):
            items = np.flatnonzero((rank >= low) & (rank < high))
            axis.errorbar(
                rank[items] + 1,
                mean[items],
                yerr=reach[:, items],
                fmt="o",
                ms=4,
                lw=1.5,
                capsize=2,
                color=COLOURS[number],
                label=f"cluster {number + 1}: mean and interval",
            )
        axis.plot(rank + 1, data["true_means"], "_", color="#000000", ms=9, mew=1.5, label="true mean")
        for place, cut in enumerate(cuts):
            active = state["active"][place]
            axis.axvline(cut + 0.5, color="#555555", ls="--" if active else "-", lw=1)
            text = f"boundary {cut}: {'active' if active else 'settled'}"
            axis.text(cut + 0.6, 1.06, text, fontsize=10, va="center")
            if active:
                last, first = state["critical"][place]
                style = {"ls": "none", "ms": 9, "mfc": "none", "mew": 1.8, "color": COLOURS[3]}
                axis.plot(
                    rank[last] + 1, state["lower"][last], "v", **style, label="critical above: least lower bound $l$"
                )
                axis.plot(
                    rank[first] + 1,
                    state["upper"][first],
                    "^",
                    **style,
                    label="critical below: largest upper bound $u$",
                )
        axis.set(ylabel="reward", ylim=(-0.05, 1.12), title=f"round {state['rounds']:,}, {state['samples']:,} samples")
        axis.title.set_fontsize(12)
        axis.grid(alpha=0.3)
    axes[-1].set(xlabel="rank by empirical mean", xticks=[1, 5, 10, 15, 20])
    figure.legend(picture)
    return picture


def summary(data: dict) -> str:
    """When boundaries were settled."""
    early, later, end = *data["states"], data["end"]
    return (
        f"Pictures after {early['rounds']:,} rounds ({early['samples']:,} samples) and when the first boundary was "
        f"settled ({later['rounds']:,} rounds, {later['samples']:,} samples); the run ended after "
        f"{end['rounds']:,} rounds and {end['samples']:,} samples."
    )


EXPERIMENT = figure.Experiment(
    name="algorithm",
    about="LUCBRank at work: confidence intervals and the critical items at each boundary.",
    config=Config(),
    quick=Config(epsilon=0.2),
    compute=compute,
    draw=draw,
    summary=summary,
)

if __name__ == "__main__":
    figure.main(EXPERIMENT)
