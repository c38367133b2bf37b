"""The full options of the programs that can write, read or run something by an option.

From the manuals of GNU coreutils 9, diffutils, findutils, curl 8 and others. What is missing here is a doubt when it is
used, never a silent pass.
"""

from typing import Final, NamedTuple

from .options import Table, table

_COMMON: Final = "help version "
_BACKUP: Final = "b backup= S: suffix: "


class Full(NamedTuple):
    """A program's options, and the roles of its first, last and other operands."""

    table: Table
    rest: str
    first: str | None = None
    last: str | None = None


def _full(options: str, rest: str, *, first: str | None = None, last: str | None = None) -> Full:
    return Full(table(_COMMON + options), rest, first, last)


_COPIES: Final = (
    _BACKUP
    + """-afdHilLnPRrpsTuvxZ archive attributes-only copy-contents no-dereference dereference force interactive
    link no-clobber no-target-directory one-file-system parents preserve= no-preserve: recursive reflink=
    remove-destination sparse: strip-trailing-slashes symbolic-link t:w target-directory:w update= verbose
    context= debug keep-directory-symlink"""
)
_DIFF: Final = """-abBcdeEfilnNpPqrstTuvwyZ brief report-identical-files C: context= U: unified= ed normal rcs
    side-by-side W: width: left-column suppress-common-lines show-c-function F: show-function-line: label:
    L: expand-tabs initial-tab tabsize: suppress-blank-empty l paginate! recursive no-dereference new-file
    unidirectional-new-file ignore-file-name-case no-ignore-file-name-case x: exclude: X:r exclude-from:r
    S: starting-file: from-file:r to-file:r ignore-case ignore-tab-expansion ignore-trailing-space
    ignore-space-change ignore-all-space ignore-blank-lines I: ignore-matching-lines: text
    strip-trailing-cr D: ifdef: GTYPE-group-format: line-format: minimal horizon-lines: speed-large-files
    color= palette: 0 1 2 3 4 5 6 7 8 9 """
_CURL: Final = """-aBfgGiIjJklLMnNOpqRsSvZ0123460# A: user-agent: a append basic compressed compressed-ssh b:r cookie:r
    c:w cookie-jar:w C: continue-at: cacert:r capath:r E:r cert:r cert-type: ciphers: crlf crlfile:r d:
    data: data-ascii: data-binary: data-raw: data-urlencode: delegation: digest disable disable-eprt
    disable-epsv D:w dump-header:w e: referer: egd-file:r engine: etag-compare:r etag-save:w
    expect100-timeout: F: form: form-string: form-escape fail fail-early fail-with-body false-start f get G
    globoff happy-eyeballs-timeout-ms: head header: H: hsts:rw http0.9 http1.0 http1.1 http2
    http2-prior-knowledge http3 http3-only ignore-content-length include insecure interface:! ipv4 ipv6
    json: junk-session-cookies keepalive-time: keepalive-cnt: key:r key-type: libcurl:w limit-rate:
    list-only local-port: location location-trusted m: max-time: max-filesize: max-redirs: negotiate next
    netrc! netrc-file:r netrc-optional! no-alpn no-buffer no-keepalive no-npn no-progress-meter
    no-sessionid noproxy: ntlm o:w output:w output-dir:w create-dirs create-file-mode: oauth2-bearer:
    parallel parallel-immediate parallel-max: pass: path-as-is pinnedpubkey: post301 post302 post303
    progress-bar proto: proto-default: proto-redir: x:h proxy:h preproxy:h socks4:h socks4a:h socks5:h
    socks5-hostname:h proxy-user: U: P:! Q:! pubkey:r random-file:r r: range: raw rate: remote-header-name
    remote-name remote-name-all remote-time remove-on-error X: request: request-target: resolve:
    connect-to: retry: retry-all-errors retry-connrefused retry-delay: retry-max-time: show-error
    show-headers silent y: speed-limit: Y: speed-time: ssl ssl-reqd ssl-no-revoke sslv2 sslv3 stderr:w
    styled-output t: tcp-fastopen tcp-nodelay z: time-cond: connect-timeout: tlsv1 tlsv1.0 tlsv1.1 tlsv1.2
    tlsv1.3 tls-max: tls13-ciphers: trace:w trace-ascii:w trace-config: trace-ids trace-time tr-encoding
    T:r upload-file:r url:h url-query: user: u: verbose w: write-out: K:! config:! unix-socket:r!
    abstract-unix-socket:! doh-url:h aws-sigv4: variable: skip-existing"""

_PROGRAMS: Final[dict[str, Full]] = {
    "sort": _full(
        """-bdfgiMhnRrVCcsuzm ignore-leading-blanks dictionary-order ignore-case general-numeric-sort
        ignore-nonprinting month-sort human-numeric-sort numeric-sort random-sort random-source:r reverse
        sort: version-sort batch-size: check= compress-program:! debug files0-from:r! k: key: merge o:w
        output:w stable S: buffer-size: t: field-separator: T:w temporary-directory:w parallel: unique
        zero-terminated""",
        "r",
    ),
    "uniq": _full(
        """-cdDiuz count repeated all-repeated= f: skip-fields: group= ignore-case s: skip-chars: unique w:
        check-chars: zero-terminated 0 1 2 3 4 5 6 7 8 9""",
        "r",
        last="rw",
    ),
    "shuf": _full(
        """-erz echo i: input-range: n: head-count: o:w output:w random-source:r repeat zero-terminated""",
        "r",
    ),
    "split": _full(
        """-deux a: suffix-length: additional-suffix: b: bytes: C: line-bytes: numeric-suffixes= hex-suffixes=
        elide-empty-files filter:! l: lines: n: number: t: separator: unbuffered verbose 0 1 2 3 4 5 6 7 8
        9""",
        "r",
        last="rw",
    ),
    "csplit": _full(
        """-ksz b: suffix-format: f:w prefix:w keep-files suppress-matched n: digits: quiet silent
        elide-empty-files""",
        "",
        first="r",
    ),
    "cp": _full(
        _COPIES,
        "r",
        last="w",
    ),
    "ln": _full(
        _BACKUP
        + """-dFfinLPrsTv directory force interactive logical no-dereference physical relative symbolic t:w
        target-directory:w no-target-directory verbose""",
        "r",
        last="w",
    ),
    "mv": _full(
        _COPIES + " " + """exchange no-copy""",
        "rd",
        last="w",
    ),
    "install": _full(
        _BACKUP
        + """-cCdDpsTvZ compare directory debug g: group: m: mode: o: owner: preserve-timestamps strip
        strip-program:! t:w target-directory:w no-target-directory verbose context= preserve-context""",
        "r",
        last="w",
    ),
    "mktemp": _full(
        """-dquVt directory dry-run quiet suffix: p:w tmpdir=w""",
        "",
    ),
    "touch": _full(
        """-acfhm d: date: no-create no-dereference r:r reference:r t: time:""",
        "w",
    ),
    "tee": _full(
        """-aip append ignore-interrupts output-error=""",
        "w",
    ),
    "truncate": _full(
        """-co no-create io-blocks r:r reference:r s: size:""",
        "w",
    ),
    "mkdir mkfifo mknod": _full(
        """-pvZ m: mode: parents verbose context=""",
        "w",
    ),
    "date": _full(
        """-uRI d: date: debug f:r! file:r! I= iso-8601= resolution R rfc-email rfc-3339: r:r reference:r s:!
        set:! utc universal""",
        "",
    ),
    "chmod chown chgrp": _full(
        """-cfhRvHLP changes silent quiet verbose no-preserve-root preserve-root reference:r recursive
        dereference no-dereference from: X r w x s t u g o a""",
        "w",
        first="",
    ),
    "diff sdiff": _full(
        _DIFF + " " + """o:w output:w diff-program:!""",
        "r",
    ),
    "cmp": _full(
        """-bls print-bytes i: ignore-initial: verbose n: bytes: quiet silent""",
        "r",
    ),
    "xxd": _full(
        """-abCdeEipru c: g: l: n: o: s: R: autoskip bits cols: groupsize: len: name: plain postscript revert
        seek: uppercase capitalize include""",
        "r",
        last="rw",
    ),
    "base64 base32 basenc": _full(
        """-di decode ignore-garbage w: wrap: base64url base64 base32 base16 z85 base2msbf""",
        "r",
    ),
    "wc": _full(
        """-clLmw bytes chars lines max-line-length words total: files0-from:r!""",
        "r",
    ),
    "head": _full(
        """-qvz n: c: lines: bytes: quiet silent verbose zero-terminated 0 1 2 3 4 5 6 7 8 9""",
        "r",
    ),
    "tail": _full(
        """-qvzFfr n: c: lines: bytes: follow= retry pid: max-unchanged-stats: s: sleep-interval: quiet silent
        verbose zero-terminated 0 1 2 3 4 5 6 7 8 9""",
        "r",
    ),
    "du": _full(
        """-0abcDHhklLmPsSx null all apparent-size bytes total dereference-args d: max-depth: files0-from:r! B:
        block-size: human-readable inodes count-links dereference separate-dirs summarize t: threshold:
        time= time-style: X:r exclude-from:r exclude: one-file-system si no-dereference""",
        "r",
    ),
    "tree": _full(
        """-adfilxqNQpugshDFCAnSvtcrUXJR L: P: I: o:w H: T: gitignore gitfile:r noreport dirsfirst filelimit:
        timefmt: sort: prune inodes device matchdirs ignore-case fromfile info infofile:r nolinks charset:
        du si metafirst filesfirst hintro:r houtro:r""",
        "r",
    ),
    "curl": _full(
        _CURL,
        "h",
    ),
}
FULL: Final = {name: full for names, full in _PROGRAMS.items() for name in names.split()}
