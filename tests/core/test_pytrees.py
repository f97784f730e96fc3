import jax
import numpy as np

import jaxrank as jr
from jaxrank.core.pytrees import leaf_ranks


def test_classes_with_the_same_fields_have_different_structures():
    """Otherwise a jitted function would run the program compiled for one class on the other."""
    means = np.array([0.9, 0.1])
    kinds = [jr.BernoulliArms, jr.PoissonArms, jr.ExponentialArms]
    structures = [jax.tree.structure(kind(means=means)) for kind in kinds]
    assert len({*structures}) == 3
    assert structures[0] != structures[1]
    query = jr.Query(item=np.zeros(4, int), opponent=np.full(4, jr.ANYONE), mask=np.ones(4, bool))
    draw = jax.jit(lambda arms: arms.draw(jax.random.key(0), query))
    rewards = [np.asarray(draw(kind(means=means))) for kind in kinds]
    assert set(rewards[0]) <= {0.0, 1.0}
    assert not set(rewards[2]) <= {0.0, 1.0}


def test_a_round_trip_keeps_every_field():
    algorithm = jr.LUCBRank(num_items=4, boundaries=(1, 3), delta=0.2, k1=2000.0, variant="provable")
    leaves, structure = jax.tree.flatten(algorithm)
    assert leaves == [0.2, 0.0, 1.1, 2000.0]
    again = jax.tree.unflatten(structure, leaves)
    assert (again.boundaries, again.variant, again.delta) == ((1, 3), "provable", 0.2)


def test_leaf_ranks_follow_nested_fields():
    algorithm = jr.LUCBRank(num_items=4, boundaries=(1, 3), delta=0.2, family=jr.Gaussian(sigma=2.0))
    assert leaf_ranks((algorithm, jr.Duels(probabilities=np.eye(4)))) == [0, 0, 0, 0, 2]
