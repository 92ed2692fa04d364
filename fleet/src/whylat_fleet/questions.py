"""The SQL texts: one a question, the same for every engine."""

from functools import cache
from importlib.resources import files
from string import Template

SCALE = 2**32
"""Sums of vectors are summed in whole 1/SCALE. Entries of a vector of length 1 are at most about 1 (of one that is
nearly constant, before its mean is taken away, at most 1e6), so that 2^30 connections fit a signed 64-bit sum; the
rounding, 2^-33 an entry, is far below 1e-9 of a coefficient."""


@cache
def _template(name: str) -> Template:
    return Template(files("whylat_fleet").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8"))


def text(name: str, **values: object) -> str:
    """The text of `sql/NAME.sql` with `${…}` filled in. Raises `KeyError` where a value is not given."""
    return _template(name).substitute(values, scale=f"{SCALE}.0")
