import json
import os
import subprocess
import sys

import btl_reference
import numpy as np
import pytest
from btl_reference import GRAPHS, comparisons
from scipy.sparse import csr_array

import jaxrank as jr
from jaxrank.core.precision import enable_x64
from jaxrank.data import connectivity
from jaxrank.fitting import banded, likelihood, solver
from jaxrank.fitting import fit as fit_room
from jaxrank.stats.links import LINKS

pytestmark = pytest.mark.once


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("count", "rows"), [(2, 10), (3, 30), (30, 500), (100, 6_000), (400, 4_000), (1_000, 20_000)])
def test_scores_are_those_of_newton_in_float64(graph, count, rows):
    data = comparisons(graph, count, rows)
    fit = jr.fit_btl(data)
    assert fit.converged
    np.testing.assert_allclose(fit.scores, btl_reference.newton_btl(data.matrix()), rtol=0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("graph", GRAPHS)
def test_ten_thousand_items(graph):
    data = comparisons(graph, 10_000, 300_000)
    fit = jr.fit_btl(data)
    assert fit.converged
    wins = csr_array((np.ones(len(data.winners)), (data.winners, data.losers)), shape=(10_000, 10_000))
    expected = btl_reference.sparse_newton_btl(wins, direct=graph == "banded")
    np.testing.assert_allclose(fit.scores, expected, rtol=0, atol=1e-8)


def test_a_list_and_a_table_give_the_same(monkeypatch):
    data = comparisons("random", 70, 3_000)
    table = jr.fit_btl(data)
    monkeypatch.setattr(fit_room, "data_of", lambda given, single_precision=False: small_list(given, 1_000))
    rows = jr.fit_btl(data)
    np.testing.assert_allclose(rows.scores, table.scores, atol=1e-8)
    assert rows.log_likelihood == pytest.approx(table.log_likelihood, rel=1e-12)
    weighted = jr.Comparisons.from_pairs(data.winners, data.losers, np.full(len(data.winners), 0.5), 70)
    np.testing.assert_allclose(jr.fit_btl(weighted).scores, table.scores, atol=1e-8)


def small_list(given, size):
    """A list in several chunks, the last one filled up."""
    pad = -len(given.winners) % size

    def cut(values):
        return np.concatenate([values, np.zeros(pad, values.dtype)]).reshape(-1, size)

    weights = None if given.weights is None else cut(given.weights)
    return likelihood.EdgeList(
        winners=cut(given.winners), losers=cut(given.losers), weights=weights, totals=(given.wins, given.losses)
    )


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_loose_tolerance_is_kept_too(graph):
    """Each answer is then worked out in 32 bit; on a badly connected graph the estimate of the error is a rough one."""
    data = comparisons(graph, 300, 20_000)
    expected = btl_reference.newton_btl(data.matrix())
    np.testing.assert_allclose(jr.fit_btl(data, tolerance=1e-5).scores, expected, rtol=0, atol=5e-5)


@pytest.mark.parametrize("prior", [0.0, 0.3])
@pytest.mark.parametrize("fit", [jr.fit_btl, jr.fit_thurstone])
def test_newton_on_a_band_finds_what_the_others_find(fit, prior, monkeypatch):
    data = comparisons("banded", 60, 4_000)
    rows = data.added_up()
    assert len(rows.winners) < 60 * 2 * 4
    np.testing.assert_array_equal(rows.matrix(), data.matrix())
    assert banded.band_of(rows).width < 12
    scores = fit(data, prior=prior).scores
    start = solver.Solution(np.zeros(60), *map(np.asarray, (np.inf, 0, 0, False)))
    with enable_x64(True):
        found = banded.newton_on_band(banded.band_of(rows), LINKS[fit.__name__[4:]], prior, start, 1e-9)
    assert found.converged
    np.testing.assert_allclose(found.scores, scores, rtol=0, atol=1e-8)
    monkeypatch.setattr(fit_room, "band_of", lambda rows: None)
    monkeypatch.setattr(fit_room, "_require_scores", lambda given, data: False)
    np.testing.assert_allclose(fit(data, prior=prior).scores, scores, rtol=0, atol=1e-8)


def test_a_band_whose_curvature_is_lost_says_so():
    """Scores 1,000 apart: every probability is 0 or 1, and nothing pulls them back."""
    rows = comparisons("banded", 20, 400).added_up()
    lost = solver.Solution(1_000.0 * np.arange(20), *map(np.asarray, (np.inf, 0, 0, False)))
    with enable_x64(True):
        found = banded.newton_on_band(banded.band_of(rows), LINKS["btl"], 0.0, lost, 1e-9)
    assert not found.converged


def test_a_wide_graph_is_not_a_band():
    assert banded.band_of(comparisons("random", 2_000, 20_000).added_up()) is None


def test_two_crowds_joined_by_two_answers():
    """Well connected but for one place, and not a band: L-BFGS gives up, Newton's method ends it."""
    crowds = [comparisons("random", 900, 20_000, seed) for seed in range(2)]
    winners = np.concatenate([crowds[0].winners, crowds[1].winners + 900, [0, 900]])
    losers = np.concatenate([crowds[0].losers, crowds[1].losers + 900, [900, 0]])
    data = jr.Comparisons.from_pairs(winners, losers)
    fit = jr.fit_btl(data)
    assert fit.converged
    np.testing.assert_allclose(fit.scores, btl_reference.newton_btl(data.matrix()), rtol=0, atol=1e-8)


def test_strong_and_close_agree_with_the_report():
    rng = np.random.default_rng(0)
    strong = 0
    for _ in range(500):
        count, rows = rng.integers(2, 12), rng.integers(1, 40)
        winners = rng.integers(0, count, rows)
        losers = (winners + rng.integers(1, count, rows)) % count
        expected = connectivity.connectivity(winners, losers, count).scores_exist
        table = jr.Comparisons.from_pairs(winners, losers, num_items=count).matrix()
        assert connectivity.is_strong_table(table) == expected
        assert connectivity.is_strong(winners, losers, count) == expected
        # Twelve items at most: eight hops reach all but rare long chains, and close ones are strong.
        assert not connectivity.has_short_chains(winners, losers, count) or expected
        strong += expected
    assert 100 < strong < 400
    dense = comparisons("random", 500, 20_000)
    assert connectivity.has_short_chains(dense.winners, dense.losers, 500)
    ladder = np.arange(99)
    winners, losers = np.concatenate([ladder, ladder + 1]), np.concatenate([ladder + 1, ladder])
    assert not connectivity.has_short_chains(winners, losers, 100)
    assert connectivity.is_strong(winners, losers, 100)


TWO_DEVICES = """
import jax, numpy as np, jaxrank as jr
from jaxrank.core.precision import enable_x64
from jaxrank.fitting import fit as fit_room, likelihood
from jaxrank.stats.links import LINKS
rng = np.random.default_rng(0)
winners = rng.integers(0, 2_000, 200_000)
losers = (winners + rng.integers(1, 2_000, 200_000)) % 2_000
data = jr.Comparisons.from_pairs(winners, losers)
likelihood.CHUNK = 2**16
with enable_x64(True):
    rows = likelihood.data_of(data)
    if jax.device_count() > 1:
        assert len(rows.winners.sharding.device_set) == 2 and not rows.winners.sharding.is_fully_replicated
        program = fit_room._lbfgs.lower(rows, LINKS["btl"], 0.0, None, 1e-9).compile().as_text()
        assert "all-reduce" in program and "all-gather" not in program
print(jr.fit_btl(data).scores[:50].tolist())
"""


def test_a_long_list_is_spread_over_devices():
    """Two devices share the rows, add up gradients, and find what one device finds."""
    found = []
    for flags in ("", "--xla_force_host_platform_device_count=2"):
        environment = {**os.environ, "XLA_FLAGS": flags}
        ran = subprocess.run([sys.executable, "-c", TWO_DEVICES], env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        found.append(json.loads(ran.stdout))
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-8)
