//! Means of sigmoids over a grid of thresholds.
