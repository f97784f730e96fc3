"""Writes docs/reference.md from the docstrings: python docs/make_reference.py"""

import dataclasses
import functools
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jaxrank

PAGE = Path(__file__).with_name("reference.md")
ROOMS = {
    "algorithms": "Algorithms",
    "environments": "Environments",
    "simulation": "Running and simulating",
    "core": "Boundaries, and the protocol for algorithms and environments of your own",
    "stats": "Families, confidence bounds and evidence",
    "metrics": "How good an order is",
    "data": "Pairwise answers",
    "fitting": "Fitting",
    "planning": "Planning",
    "theory": "Theory",
    "plots": "Plots",
}
HEAD = """# Reference

Made from the docstrings by `python docs/make_reference.py`; a test holds the two together. Every name below is
`jaxrank.<name>`, and every example has `import jax, jax.numpy as jnp, numpy as np, jaxrank as jr` before it. In shapes,
K is the number of items, C of boundaries, B of questions in a round, I of instances; a batch of trials adds a trailing
axis T.

Besides what is listed here there are `jaxrank.ANYONE`, the opponent that stands for no one in particular;
`jaxrank.paper.EXPERIMENT_1` and `jaxrank.paper.EXPERIMENT_1_BOUNDARIES`, the paper's first experiment; and
`jaxrank.__version__`. On the command line, `jaxrank fit`, `jaxrank plan`, `jaxrank simulate` and `jaxrank reproduce`
have `--help`.
"""


def public() -> Iterator[tuple[str, str, Any]]:
    """Room, name and object of everything public that can be called."""
    for name in jaxrank.__all__:
        thing = getattr(jaxrank, name)
        if not isinstance(thing, types.ModuleType):
            if callable(thing):
                yield thing.__module__.split(".")[1], name, thing
            continue
        room = thing.__name__.split(".")[1]
        names = getattr(thing, "__all__", [key for key in vars(thing) if not key.startswith("_")])
        for inner, part in ((inner, getattr(thing, inner)) for inner in names):
            if callable(part) and (hasattr(thing, "__all__") or part.__module__ == thing.__name__):
                yield room, f"{name}.{inner}", part


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods that the class defines or has from a base that is not public.

    One that fills in a method of a public base is described there, unless it has more than a line to say.
    """
    described = [base for base in cls.__mro__[1:] if any(base is thing for _, _, thing in public())]
    seen = set()
    for base in cls.__mro__:
        if base in described or not base.__module__.startswith("jaxrank."):
            continue
        for name, value in vars(base).items():
            function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            is_method = inspect.isfunction(function) or isinstance(value, property | functools.cached_property)
            if name.startswith("_") or not is_method or name in seen:
                continue
            seen.add(name)
            text = inspect.getdoc(function) or ""
            if len(text.splitlines()) > 1 or (text and not any(name in vars(base) for base in described)):
                yield name, function


def signature(name: str, thing: Any) -> str:
    """Names of the arguments, with their defaults."""
    if inspect.isclass(thing) and not dataclasses.is_dataclass(thing) and not hasattr(thing, "_fields"):
        return f"`{name}`"
    parameters = []
    for parameter in inspect.signature(thing).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        plain = parameter.replace(annotation=inspect.Parameter.empty)
        parameters.append(str(plain) if _is_short(parameter.default) else f"{parameter.name}=...")
    return f"`{name}({', '.join(parameters)})`"


def _is_short(default: Any) -> bool:
    return default is inspect.Parameter.empty or (len(repr(default)) < 25 and "object at" not in repr(default))


def markdown(text: str) -> str:
    """A docstring with its sections as lists and its example as a code block."""
    head, *rest = re.split(r"^(Args|Attributes|Returns|Raises|Example):\n", text, flags=re.MULTILINE)
    parts = [head.strip()]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        body = inspect.cleandoc("\n" + body)
        if title == "Example" and ">>>" in body:
            parts.append(f"```pycon\n{body}\n```")
        elif title in ("Args", "Attributes", "Raises"):
            body = re.sub(r"\n +", " ", body)
            parts.append(f"*{title}*\n\n" + re.sub(r"^(\*{0,2}[\w, ]+):", r"- `\1`:", body, flags=re.MULTILINE))
        else:
            parts.append(f"*{title}*: " + body)
    return "\n\n".join(parts)


def page() -> str:
    """The whole reference."""
    found = list(public())
    lines = [HEAD]
    for room, title in ROOMS.items():
        lines.append(f"## {title}\n")
        for _, name, thing in (entry for entry in found if entry[0] == room):
            lines.append(f"### {signature(name, thing)}\n\n{markdown(inspect.getdoc(thing) or '')}\n")
            if inspect.isclass(thing):
                for method, function in methods(thing):
                    shown = None if inspect.isfunction(function) else f"`{name}.{method}`"
                    shown = shown or signature(f"{name}.{method}", function)
                    lines.append(f"#### {shown}\n\n{markdown(inspect.getdoc(function) or '')}\n")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
