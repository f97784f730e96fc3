"""Frozen dataclasses as pytrees: numbers are leaves, shapes and choices are static."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np


def static(*, converter: Callable[[Any], Any] | None = None, **kwargs: Any) -> Any:
    """A dataclass field that is part of the compiled program: a shape or a choice, not a number.

    Args:
      converter: applied to the value when the dataclass is made, to check it or bring it into its usual form.
      **kwargs: as for `dataclasses.field`, such as `default`.

    Returns:
      The field.

    Example:
      See `pytree_dataclass`.
    """
    return dataclasses.field(metadata={"static": True, "converter": converter}, **kwargs)


def leaf(ndim: int, **kwargs: Any) -> Any:
    """A numeric dataclass field: an array leaf of the pytree, so that changing it does not recompile anything.

    Args:
      ndim: number of dimensions of the value; a value with one more leading axis is a stack of instances.
      **kwargs: as for `dataclasses.field`, such as `default`.

    Returns:
      The field.

    Example:
      See `pytree_dataclass`.
    """
    return dataclasses.field(metadata={"ndim": ndim, "converter": _as_numbers}, **kwargs)


def _as_numbers(value: Any) -> Any:
    """Lists as arrays, or else each number would be a leaf; whole numbers as floats, so that 0 and 0.5 share a type."""
    if isinstance(value, list | tuple):
        return np.asarray(value)
    return float(value) if isinstance(value, int) else value


def set_fields(tree: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass; for use in `__post_init__` only."""
    for name, value in values.items():
        object.__setattr__(tree, name, value)


C = TypeVar("C", bound=type)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(static, leaf, dataclasses.field))
def pytree_dataclass(cls: C) -> C:
    """A frozen, keyword-only dataclass whose numbers are pytree leaves; algorithms and environments are such.

    Converters of fields are applied before `__post_init__`. Neither runs when JAX unflattens the tree, since JAX also
    puts tracers and placeholders into it.

    Not `jax.tree_util.register_dataclass`: the tree structures of two classes with the same fields compare equal
    there, so a program compiled for one could be run for the other. Here the class is part of the structure.

    Args:
      cls: a class with annotated fields, each made by `static`, `leaf` or `dataclasses.field`.

    Returns:
      The class, as a dataclass registered with JAX.

    Example:
      >>> @jr.pytree_dataclass
      ... class Polynomial:
      ...     coefficients: jax.Array = jr.leaf(1)
      ...     name: str = jr.static(default="p")
      >>> jax.tree.map(lambda x: 2 * x, Polynomial(coefficients=[1.0, 2.0]))
      Polynomial(coefficients=array([2., 4.]), name='p')
    """
    post_init = getattr(cls, "__post_init__", lambda self: None)
    post_init = getattr(post_init, "__wrapped__", post_init)

    @functools.wraps(post_init)
    def convert(self: Any, *init_only: Any) -> None:
        for field in dataclasses.fields(self):
            converter = field.metadata.get("converter")
            if converter is not None and hasattr(self, field.name):
                object.__setattr__(self, field.name, converter(getattr(self, field.name)))
        post_init(self, *init_only)

    cls.__post_init__ = convert
    cls = dataclasses.dataclass(frozen=True, kw_only=True, eq=False)(cls)
    fields = dataclasses.fields(cls)
    fixed = [field.name for field in fields if field.metadata.get("static")]
    varying = [field.name for field in fields if not field.metadata.get("static")]

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
