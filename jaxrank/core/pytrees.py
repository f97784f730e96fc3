"""Frozen dataclasses as pytrees: numbers are leaves, shapes and choices are static."""

import dataclasses
import functools
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np


def static(**kwargs: Any) -> Any:
    """A dataclass field that is part of the compiled program: a shape or a choice, not a number."""
    return dataclasses.field(metadata={"static": True}, **kwargs)


def leaf(ndim: int, **kwargs: Any) -> Any:
    """A numeric dataclass field of `ndim` dimensions; one more leading axis makes it a stack of instances."""
    return dataclasses.field(metadata={"ndim": ndim}, **kwargs)


C = TypeVar("C", bound=type)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(static, leaf, dataclasses.field))
def pytree_dataclass(cls: C) -> C:
    """A frozen, keyword-only dataclass whose numbers are pytree leaves.

    A class that defines its own `__init__` keeps it. Lists of numbers become arrays: as lists, each number would be a
    leaf. Unflattening sets the fields as they are, since JAX also puts tracers and placeholders there.

    Not `jax.tree_util.register_dataclass`: the tree structures of two classes with the same fields compare equal
    there, so a program compiled for one could be run for the other. Here the class is part of the structure.
    """
    own_init = "__init__" in cls.__dict__
    cls = dataclasses.dataclass(frozen=True, kw_only=True, eq=False, init=not own_init)(cls)
    fields = dataclasses.fields(cls)
    fixed = [field.name for field in fields if field.metadata.get("static")]
    varying = [field.name for field in fields if not field.metadata.get("static")]
    construct = cls.__init__

    @functools.wraps(construct)
    def init(self, *arguments, **settings):
        construct(self, *arguments, **settings)
        for field in fields:
            value = getattr(self, field.name)
            if "ndim" in field.metadata and isinstance(value, list | tuple):
                object.__setattr__(self, field.name, np.asarray(value))

    cls.__init__ = init

    def flatten(tree):
        return [getattr(tree, name) for name in varying], (cls, tuple(getattr(tree, name) for name in fixed))

    def flatten_with_keys(tree):
        values, structure = flatten(tree)
        return [(jax.tree_util.GetAttrKey(n), v) for n, v in zip(varying, values, strict=True)], structure

    def unflatten(structure, values):
        tree = object.__new__(cls)
        for name, value in (*zip(fixed, structure[1], strict=True), *zip(varying, values, strict=True)):
            object.__setattr__(tree, name, value)
        return tree

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def leaf_ranks(tree: Any) -> list[int | None]:
    """The declared number of dimensions of every leaf, in flattening order; None where none is declared."""

    def rank(path: tuple[Any, ...]) -> int | None:
        node, ndim = tree, None
        for entry in path:
            if isinstance(entry, jax.tree_util.GetAttrKey) and dataclasses.is_dataclass(node):
                ndim = node.__dataclass_fields__[entry.name].metadata.get("ndim")
                node = getattr(node, entry.name)
            elif isinstance(entry, jax.tree_util.SequenceKey):
                node = node[entry.idx]
            else:
                return None
        return ndim

    return [rank(path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
