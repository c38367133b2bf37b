"""The probes of the file system's boundary."""

from .devices import DEVICES
from .neighbours import NEIGHBOURS
from .paths import PATHS

PROBES = (*PATHS, *DEVICES, *NEIGHBOURS)
