"""Frozen types that cross rooms. Nothing here does I/O and nothing here imports another room.

A value of these types is decided, recorded and executed as the same object, so none of them can be changed
after it was made.
"""
