"""A context in which JAX computes in 64 bit, whatever the default is."""

from typing import Any

import jax
import jax.experimental

_home: Any = jax if hasattr(jax, "enable_x64") else jax.experimental
enable_x64: Any = _home.enable_x64
"""`jax.enable_x64`, which is in `jax.experimental` before version 0.8."""
