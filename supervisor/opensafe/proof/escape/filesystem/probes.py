"""The probes of the file system's boundary."""

from .archives import FS_11
from .devices import DEVICES
from .exports import FS_22
from .file_api import FILE_API
from .images import FS_25
from .neighbours import NEIGHBOURS
from .paths import PATHS

PROBES = (*PATHS, *DEVICES, *NEIGHBOURS, *FILE_API, FS_11, FS_22, FS_25)
