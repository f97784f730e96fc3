import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_expit
from scipy.stats import norm

from jaxrank.core.precision import enable_x64
from jaxrank.stats.links import LINKS

pytestmark = pytest.mark.once

GAPS = np.concatenate([np.linspace(-30, 30, 61), [-1e-6, 1e-6]])


@pytest.mark.parametrize("name", LINKS)
def test_probability_slope_and_curvature(name):
    """Against SciPy, and slope and curvature against each other's definition."""
    link = LINKS[name]
    with enable_x64(True):
        gaps = jnp.asarray(GAPS)
        found = [np.asarray(f(gaps)) for f in (link.probability, link.log_probability, link.slope, link.curvature)]
        by_rule = [np.asarray(jax.vmap(jax.grad(f))(gaps)) for f in (link.log_probability, link.slope)]
    exact = (expit, log_expit) if name == "btl" else (lambda x: norm.cdf(x / 2**0.5), lambda x: norm.logcdf(x / 2**0.5))
    np.testing.assert_allclose(found[0], exact[0](GAPS), rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(found[1], exact[1](GAPS), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[2], by_rule[0], rtol=1e-7, atol=1e-12)
    near = abs(GAPS) < 12
    np.testing.assert_allclose(found[3][near], -by_rule[1][near], rtol=1e-5, atol=1e-12)
    assert (found[3] >= 0).all()
