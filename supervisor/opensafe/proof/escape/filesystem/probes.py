"""The probes of the file system's boundary."""

from .devices import DEVICES
from .file_api import FILE_API
from .neighbours import NEIGHBOURS
from .paths import PATHS

PROBES = (*PATHS, *DEVICES, *NEIGHBOURS, *FILE_API)
