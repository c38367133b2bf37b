import mmap
import os

from opensafe.bench import memory


def test_own_pages_count_in_full_and_shared_ones_by_their_share():
    size = 64 << 20
    before = memory.of(os.getpid())
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as own:
        own.write(b"x" * size)
        after = memory.of(os.getpid())
    assert after.pss - before.pss >= size * 0.9
    assert after.private - before.private >= size * 0.9
    assert after.private <= after.pss <= after.rss
