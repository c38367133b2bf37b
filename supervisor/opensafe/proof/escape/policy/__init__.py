"""The policy boundary: calls that a rule forbids in plain words, in every other form, and what came of them."""
