"""`--set name=value`: any number of a stage's plan, from the command line; the plan that a run used is in its checkpoint."""

from __future__ import annotations

import argparse
from dataclasses import fields, replace
from typing import TypeVar

Plan = TypeVar("Plan")


def add_override_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="overrides", help="another value for a number of the plan")


def overridden(plan: Plan, pairs: list[str]) -> Plan:
    """Raises ValueError for a name that the plan doesn't have or a value that isn't a number of its kind."""
    kinds = {field.name: type(field.default) for field in fields(plan)}  # type: ignore[arg-type]
    values: dict[str, float | int] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        if name not in kinds:
            raise ValueError(f"{name!r} is not in the plan; it has {', '.join(kinds)}")
        values[name] = kinds[name](text)
    return replace(plan, **values)  # type: ignore[type-var]
