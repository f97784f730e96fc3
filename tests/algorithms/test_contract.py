"""One contract over every public algorithm."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from public_algorithms import algorithms_of_the_package

import jaxrank as jr
from jaxrank import algorithms

MEANS = np.array([0.85, 0.2, 0.6, 0.4, 0.1])
SETTINGS = {"num_items": 5, "boundaries": (1, 3), "epsilon": 0.2}
"""What an algorithm is given where it has such a field; a delta comes on top."""
OTHER_SETTINGS = {
    "GapRank": {"num_clusters": 3},
    "ActiveRanking": {"factor": "code"},
    "Quicksort": {"repeats": 12},
    "ByLikelihood": {"algorithm": jr.Quicksort(num_items=5, boundaries=(1, 3), repeats=12)},
}


def with_usual_settings(cls):
    fields = {field.name for field in dataclasses.fields(cls) if field.init}
    settings = {name: value for name, value in SETTINGS.items() if name in fields} | OTHER_SETTINGS.get(
        cls.__name__, {}
    )
    number = next((name for name in ("delta", "prior") if name in fields), None)
    return lambda delta: cls(**settings, **({number: delta} if number else {}))


CASES = {name: with_usual_settings(cls) for name, cls in algorithms_of_the_package()}
MOST = 5_000
"""Samples after which an algorithm that never stops is stopped; the others have ended long before."""
VARIANTS = {
    **CASES,
    "LUCBRank, provable": lambda delta: jr.LUCBRank(
        num_items=5, boundaries=(1, 3), delta=delta, epsilon=0.2, variant="provable", sample_once=True
    ),
    "EvidenceRank, batches": lambda delta: jr.EvidenceRank(
        num_items=5, boundaries=(1, 3), delta=delta, epsilon=0.2, pulls_per_item=4, sample_once=True
    ),
    "GapRank, number not given": lambda delta: jr.GapRank(num_items=5, largest=3, delta=delta, epsilon=0.5),
    "LUCBRank, mixture": lambda delta: jr.LUCBRank(
        num_items=5, boundaries=(1, 3), delta=delta, epsilon=0.2, confidence=jr.Mixture()
    ),
    "Uniform, pairs": lambda delta: jr.Uniform(num_items=5, pairs=True),
    "LUCBRank, batches": lambda delta: jr.LUCBRank(
        num_items=5, boundaries=(1, 3), delta=delta, epsilon=0.2, pulls_per_item=4
    ),
    "LUCBRank, Gaussian": lambda delta: jr.LUCBRank(
        num_items=5, boundaries=(1, 3), delta=delta, epsilon=0.6, family=jr.Gaussian(sigma=0.5)
    ),
}


# One worker has all tests of an algorithm, and so its compiled programs.
@pytest.fixture(
    params=[
        pytest.param(name, marks=[pytest.mark.xdist_group(name), *([] if name in CASES else [pytest.mark.slow])])
        for name in VARIANTS
    ],
    ids=str,
)
def make(request):
    return VARIANTS[request.param]


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in CASES], ids=str)
def make_usual(request):
    return CASES[request.param]


def environment_of(algorithm):
    if isinstance(getattr(algorithm, "family", None), jr.Gaussian):
        return jr.GaussianArms(means=MEANS, sigma=0.5)
    if algorithm.asks_pairs:
        return jr.Duels.btl(4 * MEANS)
    return jr.BernoulliArms(means=MEANS)


def stops(algorithm):
    return not isinstance(algorithm, jr.Uniform)


def test_every_algorithm_is_public():
    assert set(CASES) <= set(algorithms.__all__) & set(jr.__all__)
    assert {"LUCBRank", "EvidenceRank", "Uniform"} <= set(CASES)


def host_loop(algorithm, environment, key, turns):
    """The machine turned by hand, with the keys that `run` uses."""
    init_key, ask_key, answer_key = jax.random.split(key, 3)

    @jax.jit
    def turn_once(state, samples, turn):
        query = algorithm.ask(jax.random.fold_in(ask_key, turn), state)
        query = query._replace(mask=query.mask & (jnp.cumsum(query.mask) <= MOST - samples))
        state = algorithm.tell(state, query, environment.draw(jax.random.fold_in(answer_key, turn), query))
        return state, samples + jnp.sum(query.mask), algorithm.done(state)

    state, samples = jax.jit(algorithm.init)(init_key), jnp.zeros((), int)
    for turn in range(turns):
        state, samples, done = turn_once(state, samples, turn)
        if done or samples == MOST:
            break
    return state, int(samples)


def test_host_loop_equals_compiled_run_and_vmapped_lane(make, key):
    algorithm = make(0.1)
    environment = environment_of(algorithm)
    state, samples = host_loop(algorithm, environment, key, 10_000)
    assert bool(algorithm.done(state)) == stops(algorithm)
    result = jax.jit(jr.run)(key, algorithm, environment, max_samples=MOST)
    assert int(result.samples) == samples
    np.testing.assert_array_equal(result.pulls, state.tally.pulls)
    np.testing.assert_array_equal(result.order, jax.jit(algorithm.order)(state))
    keys = jnp.stack([jax.random.key(1), key, jax.random.key(2)])
    lanes = jax.jit(jax.vmap(lambda k: jr.run(k, algorithm, environment, max_samples=MOST)))(keys)
    chex.assert_trees_all_equal(jax.tree.map(lambda leaf: leaf[1], lanes), result)


def test_state_keeps_shapes_and_dtypes_and_ignores_masked_queries(make, key):
    algorithm = make(0.1)
    environment = environment_of(algorithm)
    # Compiled: step by step, every operation would be compiled by itself.
    ask, tell, draw = jax.jit(algorithm.ask), jax.jit(algorithm.tell), jax.jit(environment.draw)
    for shape in [(), (3,)]:
        keys = key if shape == () else jax.random.split(key, 3)
        state = jax.jit(algorithm.init)(keys)
        for _ in range(4):
            query = ask(keys, state)
            reward = draw(keys, query)
            after = tell(state, query, reward)
            chex.assert_trees_all_equal_shapes_and_dtypes(after, state)
            nothing = query._replace(mask=jnp.zeros_like(query.mask))
            chex.assert_trees_all_equal(tell(after, nothing, reward), after)
            state = after
        order = np.asarray(jax.jit(algorithm.order)(state))
        np.testing.assert_array_equal(
            np.sort(order, axis=0), np.broadcast_to(np.arange(5).reshape(-1, *[1] * len(shape)), order.shape)
        )
        assert algorithm.done(state).shape == shape


def test_one_compilation_for_all_numbers(make):
    chex.clear_trace_counter()

    @jax.jit
    @chex.assert_max_traces(n=1)
    def one(key, algorithm, environment):
        return jr.run(key, algorithm, environment, max_samples=50).samples

    for number, delta in enumerate([0.1, 0.01, 0.5]):
        algorithm = make(delta)
        environment = environment_of(algorithm)
        name = "scores" if algorithm.asks_pairs else "means"
        environment = dataclasses.replace(environment, **{name: jnp.asarray(MEANS * (1 - 0.1 * number), float)})
        assert int(one(jax.random.key(number), algorithm, environment)) == 50


def test_budget_is_never_overspent_and_said_to_be_spent(make, key):
    algorithm = make(0.1)
    environment = environment_of(algorithm)
    run = jax.jit(jr.run)
    for budget in (1, 3, 5, 12):
        result = run(key, algorithm, environment, max_samples=budget)
        credited = 2 if algorithm.asks_pairs else 1
        assert int(result.samples) == budget
        assert int(result.pulls.sum()) == credited * budget
        assert not bool(result.done)


def test_a_reward_outside_the_domain_is_refused_on_the_host(make_usual, key):
    """A call from the host is a door; under `jit` the value is not known, and passes."""
    algorithm = make_usual(0.1)
    state = jax.jit(algorithm.init)(key)
    query = jax.jit(algorithm.ask)(key, state)
    reward = np.full(query.item.shape, 0.5)
    impossible = [np.nan, np.inf]
    if algorithm.asks_pairs or isinstance(getattr(algorithm, "family", None), jr.Bernoulli):
        impossible += [2.0, -0.5]
    place = int(np.argmax(query.mask))
    for value in impossible:
        reward[place] = value
        with pytest.raises(ValueError, match=r"reward must "):
            algorithm.tell(state, query, jnp.asarray(reward, float))
    jax.jit(algorithm.tell)(state, query, jnp.asarray(reward, float))
    # What was not asked is not looked at.
    masked = query._replace(mask=query.mask.at[place].set(False))
    algorithm.tell(state, masked, jnp.asarray(reward, float))


def any_questions(rng, algorithm, width):
    """Questions about random items, with random answers to them, some of them masked."""
    item = jnp.asarray(rng.integers(0, 5, width))
    opponent = (
        (item + jnp.asarray(rng.integers(1, 5, width))) % 5 if algorithm.asks_pairs else jnp.full(width, jr.ANYONE)
    )
    query = jr.Query(item=item, opponent=opponent, mask=jnp.asarray(rng.random(width) < 0.8))
    return query, jnp.asarray(rng.random(width) < MEANS[np.asarray(item)], float)


def test_answers_to_any_questions_or_only_to_its_own(make, key):
    """Answers in any order and number are counted, and the state computed anew from their tally is as good."""
    algorithm = make(0.1)
    state = jax.jit(algorithm.init)(key)
    if not algorithm.takes_any_questions:
        with pytest.raises(TypeError, match="takes only answers to its own questions"):
            algorithm.with_tally(state, state.tally)
        return
    rng, tell = np.random.default_rng(0), jax.jit(algorithm.tell)
    total = np.zeros((2, 5))
    for width in [1, 3, 150] * 40:
        query, reward = any_questions(rng, algorithm, width)
        state = tell(state, query, reward)
        for items, gain in ((query.item, reward), (query.opponent, 1 - reward))[: 1 + algorithm.asks_pairs]:
            np.add.at(total[0], np.asarray(items), np.asarray(query.mask))
            np.add.at(total[1], np.asarray(items), np.asarray(query.mask) * np.asarray(gain))
    np.testing.assert_array_equal(state.tally.pulls, total[0])
    np.testing.assert_allclose(state.tally.means * total[0], total[1], rtol=1e-5)
    with_tally, order = jax.jit(algorithm.with_tally), jax.jit(algorithm.order)
    anew = with_tally(jax.jit(algorithm.init)(key), state.tally)
    chex.assert_trees_all_equal_shapes_and_dtypes(anew, state)
    np.testing.assert_array_equal(order(anew), order(state))
    # Far more answers than a run would have asked for: whoever stops has stopped, either way, and stays stopped.
    for reached in (state, anew, with_tally(state, state.tally)):
        assert bool(algorithm.done(reached)) == stops(algorithm)
    assert order(state)[0] == np.argmax(MEANS)


def test_what_is_proven_stays_proven_when_the_tally_is_replaced(make, key):
    algorithm = make(0.1)
    if not (algorithm.takes_any_questions and stops(algorithm)):
        return
    state, _ = host_loop(algorithm, environment_of(algorithm), key, 10_000)
    one_each = jr.Tally.empty((5,)).add(jr.Query(jnp.arange(5), jnp.full(5, jr.ANYONE), jnp.ones(5, bool)), jnp.ones(5))
    replaced = jax.jit(algorithm.with_tally)(state, one_each)
    if hasattr(state, "level"):
        assert bool((replaced.level >= state.level).all())
        assert int(state.level.sum()) > 0
    elif getattr(algorithm, "variant", None) == "literal":
        assert bool(algorithm.done(replaced))
    np.testing.assert_array_equal(replaced.tally.pulls, np.ones(5))


@functools.cache
def compilations():
    """A list that grows by one with every program that is compiled, or fetched from the cache of compiled programs."""
    found = []

    def listen(event, duration, **kwargs):
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return found


def test_by_hand_nothing_is_compiled_after_the_second_round(make_usual, key):
    """Called with numbers, every method runs a program that was compiled before."""
    algorithm = make_usual(0.1)
    environment = environment_of(algorithm)
    draw = jax.jit(environment.draw)
    state, counts = algorithm.init(key), []
    keys = [jax.random.fold_in(key, turn) for turn in range(12)]
    for one in keys:
        counts.append(len(compilations()))
        query = algorithm.ask(one, state)
        state = algorithm.tell(state, query, draw(one, query))
        algorithm.done(state)
        algorithm.order(algorithm.prepare_order(state))
        algorithm.found_boundaries(state)
        for name in ("certificate", "clustering"):
            if hasattr(algorithm, name):
                getattr(algorithm, name)(state)
        if algorithm.takes_any_questions:
            algorithm.with_tally(state, state.tally)
        jr.run(one, algorithm, environment, max_samples=5)
    assert counts[1] > counts[0]
    assert len(compilations()) == counts[2]


def test_by_hand_and_compiled_make_the_same_pulls(make_usual, key):
    algorithm = make_usual(0.1)
    draw = jax.jit(environment_of(algorithm).draw)
    states = [algorithm.init(key)] * 2
    ask, tell = jax.jit(algorithm.ask), jax.jit(algorithm.tell)
    for turn in range(20):
        one = jax.random.fold_in(key, turn)
        query, other = algorithm.ask(one, states[0]), ask(one, states[1])
        chex.assert_trees_all_equal(query, other)
        states = [algorithm.tell(states[0], query, draw(one, query)), tell(states[1], query, draw(one, query))]


@pytest.mark.parametrize("place", [-1, 5])
def test_an_item_that_does_not_exist_is_refused_on_the_host(make_usual, key, place):
    algorithm = make_usual(0.1)
    state = algorithm.init(key)
    query = algorithm.ask(key, state)
    asked = int(np.argmax(query.mask))
    bad = query._replace(item=query.item.at[asked].set(place))
    with pytest.raises(ValueError, match=rf"item must lie in \[0, 4\], got {place}"):
        algorithm.tell(state, bad, jnp.zeros(query.item.shape))
    with pytest.raises(ValueError, match="reward must have one number per question"):
        algorithm.tell(state, query, jnp.zeros(query.item.shape[0] + 1))


def test_what_lacks_something_is_refused_by_name(key):
    """A method that was forgotten, a class that JAX does not know: said at once, with what to write."""

    @jr.pytree_dataclass
    class WithoutDone(jr.Algorithm):
        num_items: int = jr.static(default=5)

        def init(self, key): ...
        def ask(self, key, state): ...
        def tell(self, state, query, reward): ...
        def order(self, state): ...

    with pytest.raises(TypeError, match=r"WithoutDone with.* abstract method '?done"):
        WithoutDone()

    class Unanswered(jr.Environment):
        num_items = 5

        def draw(self, key, query):
            return jnp.zeros(query.item.shape)

    class Answered(Unanswered):
        means = MEANS

    ours, arms = jr.Uniform(num_items=5), jr.BernoulliArms(means=MEANS)
    for algorithm, environment, message in (
        (
            object(),
            arms,
            "algorithm must be an object of a subclass of jaxrank.Algorithm that defines .*init, .*object",
        ),
        (jr.Uniform, arms, "algorithm must be an object of .*jaxrank.Algorithm, got the class Uniform itself"),
        (ours, Unanswered(), "environment must be .* jaxrank.Environment that defines means, got Unanswered"),
        (ours, Answered(), "Answered must be a pytree: write @jaxrank.pytree_dataclass above the class"),
        (ours, MEANS, "environment must be an object of a subclass of jaxrank.Environment that defines .*draw"),
    ):
        for call in (jr.run, lambda *args, **kwargs: jr.simulate(*args, **kwargs, num_trials=2)):
            with pytest.raises(ValueError, match=message):
                call(key, algorithm, environment, max_samples=10)
    with pytest.raises(TypeError, match="abstract"):
        type("Silent", (jr.Environment,), {})()
