"""Our parsers and our gate held against invariants by inputs that coverage finds (docs/fuzzing.md).

The target is what is run, the engine runs it in a child of its own, and the mutants say whether it would see a fault.
"""
