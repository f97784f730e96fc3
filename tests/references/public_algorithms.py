"""Every public algorithm of the package, found by its file."""

import importlib
import pkgutil

import jaxrank as jr
from jaxrank import algorithms


def algorithms_of_the_package():
    """Every public algorithm of every public file in `jaxrank/algorithms`, by name."""
    for module in pkgutil.iter_modules(algorithms.__path__):
        path = f"jaxrank.algorithms.{module.name}"
        for name, thing in vars(importlib.import_module(path)).items():
            if jr.Algorithm in getattr(thing, "__mro__", ()) and thing.__module__ == path and module.name[0] != "_":
                yield name, thing
