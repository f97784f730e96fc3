"""The widest gaps, against trying all clusterings."""

import jax.numpy as jnp
import numpy as np
import pytest
from clusterings import allowed_cuts, plain, random_limits, value

from jaxrank.stats import gaps


@pytest.mark.once
def test_the_widest_gaps_are_found_as_by_trying_all():
    rng = np.random.default_rng(0)
    for _ in range(25):
        limits = random_limits(rng)
        items, fewest = limits.num_items, limits.counts[0]
        widths = rng.normal(size=(items - 1, 3))
        low, high = widths - rng.exponential(size=widths.shape), widths + rng.exponential(size=widths.shape)
        best = gaps.best_clustering(jnp.asarray(widths), limits)
        second = gaps.best_clustering(jnp.asarray(widths), limits, best.boundaries)
        rival = gaps.best_rival(jnp.asarray(low), jnp.asarray(high), limits, best.boundaries)
        through = gaps.best_through_each(jnp.asarray(low), jnp.asarray(high), limits, best.boundaries)
        for trial in range(3):
            by_value = sorted(allowed_cuts(limits), key=lambda cuts: -value(widths[:, trial], cuts))
            leader = by_value[0]
            assert plain(best.boundaries[:, trial], items) == leader
            assert float(best.value[trial]) == pytest.approx(value(widths[:, trial], leader), abs=1e-5)
            assert plain(second.boundaries[:, trial], items) == (by_value[1] if len(by_value) > 1 else ())

            def at_most(cuts, leader=leader, fewest=fewest, low=low[:, trial], high=high[:, trial]):
                """A common gap counts the same for both, unless it weighs more in the average."""
                share = 1 if len(cuts) >= len(leader) else fewest / len(leader)
                common = high - (high - low) * share
                return float(np.mean([(common if cut in leader else high)[cut - 1] for cut in cuts]))

            best_rival = max((at_most(cuts) for cuts in by_value[1:]), default=-np.inf)
            assert float(rival.value[trial]) == pytest.approx(best_rival, abs=1e-5)
            if len(by_value) > 1:
                assert at_most(plain(rival.boundaries[:, trial], items)) == pytest.approx(best_rival, abs=1e-5)
            for rank in range(1, items):
                expected = max((at_most(cuts) for cuts in by_value if rank in cuts), default=-np.inf)
                assert float(through[rank - 1, trial]) == pytest.approx(expected, abs=1e-5)
