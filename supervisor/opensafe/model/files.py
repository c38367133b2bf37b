"""Bounds of file operations that tools, services and clients share."""

from typing import Final

#: Content up to this many bytes has to stand in the call, so that it can be judged.
INLINE_MAX: Final = 1 << 20
#: Entries of one page of a listing.
MAX_PAGE: Final = 10_000
#: Entries of one tree, and bytes of content in it.
MAX_TREE_ENTRIES: Final = 100_000
MAX_TREE_BYTES: Final = 64 << 30
#: Bytes that a host takes of a tree, unless its caller says another number.
DOWNLOAD_BYTES: Final = 1 << 30
