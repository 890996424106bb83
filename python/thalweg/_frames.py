"""Conversion of rows to pandas DataFrames, if pandas is installed."""

from __future__ import annotations

from typing import Any, Dict, List


def frame_or_rows(rows: List[Dict[str, Any]]) -> Any:
    """Return a DataFrame, or the rows themselves without pandas."""
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)
