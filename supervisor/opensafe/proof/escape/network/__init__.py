"""The network boundary: every way to reach what a call was not granted, before a small internet of the suite's own."""
