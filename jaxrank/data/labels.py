"""Items by name and by number: checked input, and labels in a readable order."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from jaxrank.core import checks


def checked_pairs(
    winners: Any, losers: Any, num_items: int | None, labels: Sequence[Any] | None
) -> tuple[Int[np.ndarray, "R"], Int[np.ndarray, "R"], tuple[str, ...]]:
    """Check winners and losers, and return them as item numbers with one label per item.

    Args:
      winners: item that won each of the R answers: whole numbers from 0, or names (strings).
      losers: item that lost each answer, in the same form.
      num_items: number of items K; None takes the number of labels or, without labels, the largest item number + 1.
      labels: one distinct label per item; None takes the names found or, without names, "0", "1", ...

    Returns:
      Winners (R,) and losers (R,) as 32-bit item numbers, and the K labels.

    Raises:
      ValueError: naming the argument, the rule and the value, for the first rule that is broken.

    Example:
      >>> from jaxrank.data.labels import checked_pairs
      >>> winners, losers, labels = checked_pairs(["owl", "fox"], ["fox", "elk"], None, None)
      >>> winners.tolist(), losers.tolist(), labels
      ([2, 1], [1, 0], ('elk', 'fox', 'owl'))
    """
    as_long = f"must be as long as winners, {len(winners)}"
    checks.require(len(winners) == len(losers), "losers", as_long, len(losers))
    if len(winners) and isinstance(winners[0], str) and isinstance(losers[0], str):
        codes, found = _numbered([*map(str, winners), *map(str, losers)], labels)
        winners, losers, labels = codes[: len(winners)], codes[len(winners) :], found
    winners, losers = _item_numbers("winners", winners), _item_numbers("losers", losers)
    if labels is not None:
        labels = _checked_labels(labels)
    if num_items is None:
        largest = int(max(winners.max(initial=-1), losers.max(initial=-1)))
        rule = "must be item numbers from 0, or num_items given where most items have no answer"
        # Names that happen to be large numbers would otherwise mean millions of items without answers.
        few = labels is not None or largest < 1_000 + 100 * len(winners)
        checks.require(few, "winners and losers", rule, f"{largest} among {len(winners)} answers")
        num_items = len(labels) if labels is not None else largest + 1
    num_items = checks.whole("num_items", num_items, low=0)
    if labels is not None:
        checks.require(len(labels) == num_items, "labels", f"must name all {num_items} items", len(labels))
    for name, items in (("winners", winners), ("losers", losers)):
        bad = np.flatnonzero((items < 0) | (items >= num_items))
        rule = f"must lie in [0, {num_items - 1}], the numbers of the items"
        checks.require(not len(bad), name, rule, f"{items[bad[0]]} at position {bad[0]}" if len(bad) else "")
    same = np.flatnonzero(winners == losers)
    if len(same):
        what = f"item {winners[same[0]]} twice at position {same[0]}"
        checks.fail("winners and losers", "must not compare an item with itself", what)
    labels = tuple(map(str, range(num_items))) if labels is None else labels
    return winners.astype(np.int32), losers.astype(np.int32), labels


def _item_numbers(name: str, values: Any) -> Int[np.ndarray, "R"]:
    """The values as whole numbers; an empty list, which NumPy takes for floats, counts as such."""
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(int)
    checks.require(array.ndim == 1, name, "must be a one-dimensional array of item numbers", f"shape {array.shape}")
    kind = array.dtype if array.dtype != object else f"{array[0]!r}"
    checks.require(np.issubdtype(array.dtype, np.integer), name, "must be whole item numbers from 0", kind)
    return array


def _checked_labels(labels: Sequence[Any]) -> tuple[str, ...]:
    """The labels as strings, all different: items are matched by label when data sets are merged."""
    names = tuple(map(str, labels))
    seen: set[str] = set()
    for name in names:
        checks.require(name not in seen, "labels", "must be different from each other", f"{name!r} twice")
        seen.add(name)
    return names


def _numbered(names: Sequence[str], labels: Sequence[Any] | None) -> tuple[Int[np.ndarray, "N"], tuple[str, ...]]:
    """Every name as the number of its label, and the labels: those given, or all names in order."""
    codes, found = coded(names)
    if labels is None:
        return codes, found
    wanted = _checked_labels(labels)
    missing = set(found) - set(wanted)
    checks.require(not missing, "labels", "must name every item in the answers", f"no {sorted(missing)[:3]}")
    place = {name: number for number, name in enumerate(wanted)}
    return np.asarray([place[name] for name in found])[codes], wanted


def coded(names: Sequence[str]) -> tuple[Int[np.ndarray, "N"], tuple[str, ...]]:
    """Replace every name by its number in the sorted list of distinct names.

    Args:
      names: N names, with repeats.

    Returns:
      The number of every name (N,), and the distinct names in the order of `sorted_labels`.

    Example:
      >>> from jaxrank.data.labels import coded
      >>> codes, labels = coded(["fox", "elk", "fox"])
      >>> codes.tolist(), labels
      ([1, 0, 1], ('elk', 'fox'))
    """
    found = list(dict.fromkeys(names))
    order, labels = sorted_labels(found)
    place = dict(zip(found, order, strict=True))
    return np.asarray([place[name] for name in names], int), labels


def sorted_labels(names: Sequence[str]) -> tuple[Int[np.ndarray, "N"], tuple[str, ...]]:
    """Sort distinct names: by value if all are whole numbers, otherwise alphabetically.

    Args:
      names: N distinct names.

    Returns:
      The position of every name after sorting (N,), and the sorted names.

    Example:
      >>> from jaxrank.data.labels import sorted_labels
      >>> place, labels = sorted_labels(["10", "9", "2"])
      >>> place.tolist(), labels
      ([2, 1, 0], ('2', '9', '10'))
    """
    key = int if all(name.isdecimal() for name in names) else str
    order = sorted(range(len(names)), key=lambda place: key(names[place]))
    return np.argsort(order).astype(int), tuple(names[place] for place in order)
