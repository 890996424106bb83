"""Rows of plain values as tables: pandas DataFrames where pandas is installed."""

from __future__ import annotations

from typing import Any, Dict, List


def frame_or_rows(rows: List[Dict[str, Any]]) -> Any:
    """A DataFrame, or the rows as they are if there is no pandas."""
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)
