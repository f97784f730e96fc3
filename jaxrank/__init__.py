"""Adaptive coarse ranking in JAX: every item in its tier, with a guarantee, from few noisy judgements."""

import lazy_loader

__version__ = "0.1.0"

# The public names stand in __init__.pyi. They are loaded on first use, so that `jaxrank --help` need not wait for JAX.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
