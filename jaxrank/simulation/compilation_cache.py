"""Compiled programs on disk, for programs that start again and again."""

import os
from pathlib import Path

import jax


def keep_compiled_programs(folder: str | Path | None = None) -> None:
    """Keep JAX's compiled programs on disk, so that a program that is started again begins at once.

    It sets `jax.config` for the whole process: a choice for programs to make, which this library never makes for
    them. JAX's own environment variable, JAX_COMPILATION_CACHE_DIR, goes first.

    Args:
      folder: where; by default `jaxrank/compiled` in the user's cache folder.

    Returns:
      Nothing.

    Example:
      >>> jr.keep_compiled_programs("compiled")  # doctest: +SKIP
    """
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update(
            "jax_compilation_cache_dir", str(cache / "jaxrank" / "compiled" if folder is None else folder)
        )
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
