"""Figures: how long a decision and a gated execution take beside a baseline in the same run. Run by hand, as root."""
