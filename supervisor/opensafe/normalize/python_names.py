"""What the names of Python's library do, as far as inline code may use them.

Modules and members by positive list; names that are looked up in anything else by a list of what is harmful.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from .name_lists import names

#: Modules that compute, read and write files, or call what the code gives them.
MODULES: Final = names(
    """__future__ abc argparse array ast base64 binascii bisect bz2 calendar cmath codecs collections
    collections.abc colorsys concurrent.futures configparser contextlib contextvars copy cProfile csv
    dataclasses datetime decimal difflib dis doctest email email.message email.utils encodings enum errno
    filecmp fnmatch fractions functools getopt gettext glob graphlib gzip hashlib heapq hmac html html.parser io
    ipaddress itertools json json.decoder json.tool keyword linecache locale logging lzma math mimetypes numbers
    opcode operator optparse os.path pathlib platform plistlib pprint profile pstats queue random re reprlib
    sched secrets shlex sqlite3 stat statistics string stringprep struct symtable tabnanny tempfile textwrap
    this threading time timeit token tokenize tomllib traceback tracemalloc typing types unicodedata unittest
    unittest.mock uuid warnings weakref wsgiref.validate xml xml.dom xml.dom.minidom xml.etree
    xml.etree.ElementTree xml.sax xml.sax.saxutils zipfile zlib zoneinfo urllib.parse urllib.error
    importlib.metadata importlib.resources importlib.util http.HTTPStatus tarfile"""
)
#: Modules of which only some members may be used, under no name of their own but as `module.member`.
MEMBERS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        name: names(members)
        for name, members in {
            "sys": """argv base_exec_prefix base_prefix byteorder builtin_module_names executable exit exc_info
                exec_prefix flags float_info getdefaultencoding getfilesystemencoding getrecursionlimit
                getrefcount getsizeof hash_info hexversion implementation int_info intern maxsize maxunicode
                path platform prefix set_int_max_str_digits setrecursionlimit stderr stdin stdlib_module_names
                stdout version version_info warnoptions""",
            "os": """DirEntry PathLike R_OK W_OK X_OK F_OK access altsep chmod cpu_count curdir devnull environ extsep
                fsdecode fsencode fspath get_terminal_size getcwd getenv getlogin getpid getppid getuid getgid isatty
                linesep listdir lstat makedirs mkdir name pardir path pathsep readlink remove removedirs rename renames
                replace rmdir scandir sched_getaffinity sep stat stat_result strerror times truncate uname unlink
                urandom utime walk""",
            "shutil": """copy copy2 copyfile copyfileobj copymode copytree disk_usage get_terminal_size ignore_patterns
                make_archive move rmtree which""",
            "types": "SimpleNamespace MappingProxyType NoneType ModuleType FunctionType MethodType GeneratorType",
            "operator": """add and_ concat contains eq floordiv ge gt index itemgetter le lt matmul mod mul
                ne neg not_ or_ pos pow sub truediv xor""",
            "sysconfig": "get_config_var get_path get_paths get_platform get_python_version",
            "importlib": "import_module invalidate_caches metadata reload resources util",
            "importlib.util": "find_spec module_from_spec spec_from_file_location",
            "urllib": "parse error",
            "http": "HTTPStatus",
            "asyncio": """CancelledError Event Future Lock Queue Semaphore Task TaskGroup TimeoutError as_completed
                create_task current_task gather iscoroutinefunction run sleep timeout to_thread wait wait_for""",
            "resource": "RUSAGE_CHILDREN RUSAGE_SELF getrlimit getrusage",
            "gc": "collect disable enable freeze get_count get_stats",
            "inspect": """Parameter Signature cleandoc getdoc getfile getmembers getmro getsource getsourcefile
                getsourcelines isabstract isasyncgenfunction isclass iscoroutinefunction isfunction isgeneratorfunction
                ismethod ismodule signature unwrap""",
            "multiprocessing": "cpu_count",
            "runpy": "run_module run_path",
            "ssl": "OPENSSL_VERSION OPENSSL_VERSION_INFO",
            "string": """Template ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits
                printable punctuation whitespace""",
            "pkgutil": "iter_modules",
            "site": "getsitepackages getusersitepackages",
        }.items()
    }
)
#: Parts of harmless modules that are not.
SUBMODULES: Final = names(
    "concurrent.futures.process logging.config logging.handlers xml.sax.expatreader wsgiref.simple_server"
)
#: Modules of others that talk, start programs or load code.
FOREIGN: Final = names(
    """aiohttp asyncpg boto boto3 botocore cffi cloudpickle dill dns docker execnet fabric grpc gevent httplib2
    httpx invoke joblib mako kubernetes ldap3 mechanize mysql netmiko paramiko pexpect pip playwright plumbum psycopg
    psycopg2 ptyprocess pwn pycurl pymongo pymysql redis requests scapy scrapy selenium setuptools sh
    smbprotocol telethon tornado twisted urllib3 websocket websockets zmq"""
)
BANNED_NAMES: Final = names(
    "eval exec compile __import__ globals locals vars breakpoint input __builtins__ __loader__ __spec__"
)
HARMLESS_NAMES: Final = names(
    "__version__ __file__ __name__ __doc__ __path__ __all__ __len__ __main__ __init__ __pycache__ __init_subclass__ "
    "__annotations__ __module__ __qualname__ __tests__ __mocks__ __snapshots__ __author__ __future__ __slots__"
)
#: Names between double underlines that are methods a class may define or call.
SPECIAL: Final = names(
    """__add__ __bool__ __call__ __class__ __contains__ __enter__ __eq__ __exit__ __float__ __ge__ __getitem__
    __gt__ __hash__ __init__ __int__ __iter__ __le__ __lt__ __missing__ __mul__ __ne__ __next__ __post_init__
    __repr__ __setitem__ __str__ __sub__ __table__ __tablename__ __mapper__ __fields__ __dataclass_fields__
    __members__ __cause__ __context__ __traceback__ __args__ __origin__ __metadata__"""
)
#: Names of the library's modules that are names of much else as well.
ATTRIBUTES: Final = names(
    """array calendar cmd code codecs copy email http math numbers platform profile queue resource sched secrets
    select signal site stat statistics string struct symbol test time token trace types typing uuid zipfile"""
)
BANNED_ATTRIBUTES: Final = names(
    """system popen spawn spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe posix_spawn posix_spawnp
    check_call check_output getoutput getstatusoutput Popen execl execle execlp execlpe execv execve execvp
    execvpe fork forkpty openpty urlopen urlretrieve symlink symlink_to hardlink_to link_to eval_code
    exec_command get_type_hints ForwardRef Formatter get_field extractall extract unpack_archive load_extension
    enable_load_extension read_pickle to_pickle unsafe_load full_load subprocess_exec subprocess_shell
    create_subprocess_exec create_subprocess_shell create_connection create_server create_datagram_endpoint
    open_connection start_server ProcessPoolExecutor fromfile mkfifo mknod chroot chdir fchdir setuid setgid
    killpg modules builtins __subclasses__ UnsafeLoader FullLoader CLoader Loader unsafe_load_all full_load_all
    Unpickler ctypeslib f2py distutils sympify parse_expr"""
)
FRAMES: Final = names(
    "f_globals f_builtins f_locals f_back tb_frame gi_frame cr_frame ag_frame gi_code f_code currentframe"
)
#: What makes a text out of what does not show it.
DECODERS: Final = names(
    """chr bytes bytearray fromhex b64decode b32decode b16decode a85decode b85decode unhexlify a2b_hex a2b_base64
    decode decodebytes standard_b64decode urlsafe_b64decode decompress translate maketrans unquote unquote_plus
    base64.b64decode binascii.unhexlify codecs.decode"""
)
