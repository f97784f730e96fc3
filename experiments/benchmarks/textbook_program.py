"""LUCBRank as one would first write it in JAX: `jit(vmap(while_loop))`, bisection, argsort."""

import jax
import jax.numpy as jnp
from contest import ALPHA, DELTA, Case


def textbook(case: Case):
    """`jit(vmap(while_loop))` as one would first write it."""
    points = jnp.asarray(case.boundaries)
    means = jnp.asarray(case.means)
    scores = jnp.asarray(case.scores) if case.duels else None
    count, half = case.num_items, len(case.boundaries)

    def divergence(p, q):
        q = jnp.clip(q, 1e-7, 1 - 1e-7)
        return jax.scipy.special.xlogy(p, p / q) + jax.scipy.special.xlogy(1 - p, (1 - p) / (1 - q))

    def bound(p, pulls, beta, edge):
        def halve(_, bracket):
            inside, outside = bracket
            middle = (inside + outside) / 2
            good = pulls * divergence(p, middle) <= beta
            return jnp.where(good, middle, inside), jnp.where(good, outside, middle)

        return jax.lax.fori_loop(0, 24, halve, (p, jnp.full_like(p, edge)))[1]

    def sample(key, items):
        if scores is None:
            return (jax.random.uniform(key, items.shape) < means[items]).astype(float)
        opponent_key, win_key = jax.random.split(key)
        opponent = jax.random.randint(opponent_key, items.shape, 0, count - 1)
        opponent = opponent + (opponent >= items)
        return jax.random.bernoulli(win_key, jax.nn.sigmoid(scores[items] - scores[opponent])).astype(float)

    def look(pulls, sums, t):
        p = sums / pulls
        x = jnp.log(case.k1 * count / DELTA) + ALPHA * jnp.log(t)
        beta = x + jnp.log(x)
        lower, upper = bound(p, pulls, beta, 0.0), bound(p, pulls, beta, 1.0)
        rank = jnp.argsort(jnp.argsort(-p))
        above = rank[None, :] < points[:, None]
        low, high = jnp.where(above, lower, jnp.inf), jnp.where(above, -jnp.inf, upper)
        critical = jnp.stack([jnp.argmin(low, axis=1), jnp.argmax(high, axis=1)], axis=1)
        return critical, jnp.max(high, axis=1) - jnp.min(low, axis=1)

    def trial(key):
        first_key, key = jax.random.split(key)
        pulls = jnp.ones(count)
        sums = sample(first_key, jnp.arange(count))
        critical, _ = look(pulls, sums, 1.0)

        def going(carry):
            _, _, _, active, _, _, samples = carry
            return jnp.any(active) & (samples < case.max_samples)

        def body(carry):
            pulls, sums, t, active, critical, key, samples = carry
            key, now = jax.random.split(key)
            items, weight = critical.reshape(-1), jnp.repeat(active, 2).astype(float)
            sums = sums.at[items].add(weight * sample(now, items))
            pulls = pulls.at[items].add(weight)
            critical, overlap = look(pulls, sums, t + 1)
            return pulls, sums, t + 1, active & (overlap >= case.epsilon), critical, key, samples + weight.sum()

        start = (pulls, sums, 1.0, jnp.ones(half, bool), critical, key, float(count))
        _, _, t, _, _, _, samples = jax.lax.while_loop(going, body, start)
        return t, samples

    batch = jax.jit(jax.vmap(trial))

    def run(seed: int) -> tuple[float, float]:
        rounds, samples = batch(jax.random.split(jax.random.key(seed), case.textbook_trials))
        return float(rounds.sum()), float(samples.mean())

    return run
