"""Reports by group: counts, rates and their intervals as rows of a frame."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from thalweg._frames import frame_or_rows


def _interval(name: str, found: Any) -> dict:
    low, high = (np.nan, np.nan) if found is None else found
    return {f"{name}_low": low, f"{name}_high": high}


def _group_row(group: dict, by: Optional[str]) -> dict:
    """Return a row of the report."""
    row = {} if by is None else {"by": by}
    row.update({"group": group["group"], "rows": group["rows"], "positive_labels": group["positive"]})
    row["selection_rate"] = group["predicted"]
    row.update(_interval("selection_rate", group.get("predicted_interval")))
    row["accuracy"] = group["accuracy"]
    row.update(_interval("accuracy", group.get("accuracy_interval")))
    for name, cell in (("true_positive_rate", group.get("positives")), ("false_positive_rate", group.get("negatives"))):
        cell = cell or {"rows": 0, "predicted": np.nan, "interval": None}
        row[f"{name}_rows"], row[name] = cell["rows"], cell["predicted"]
        row.update(_interval(name, cell["interval"]))
    return row


def report_of(groups: List[dict], by_column: List[dict]) -> Any:
    """Return the report by group, and by each column if the groups are the combinations of several."""
    if not by_column:
        return frame_or_rows([_group_row(group, None) for group in groups])
    parts = [(", ".join(column["column"] for column in by_column), groups)]
    parts += [(column["column"], column["groups"]) for column in by_column]
    return frame_or_rows([_group_row(group, by) for by, found in parts for group in found])
