"""SQLite in the workspace: its write-ahead log needs shared memory and locks, which file systems may only fake."""

import asyncio

import pytest

#: To change the mode takes the database alone, and waits for nobody: once, before there are two.
MAKER = """
import os, sqlite3, sys
os.mkdir(os.path.dirname(sys.argv[1]))
db = sqlite3.connect(sys.argv[1], isolation_level=None)
assert db.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
db.execute("CREATE TABLE rows (writer TEXT, number INTEGER, text TEXT, UNIQUE (writer, number))")
"""

#: Opens the database, waits for the other, and then both insert at once; now and then the log is written back.
WRITER = """
import os, sqlite3, sys, time
me, rows, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
db = sqlite3.connect(path, timeout=60, isolation_level=None)
assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
open(path + ".ready-" + me, "w").close()
while sum(".ready-" in name for name in os.listdir(os.path.dirname(path))) < 2:
    time.sleep(0.01)
for number in range(rows):
    db.execute("BEGIN IMMEDIATE")
    before = db.execute("SELECT count(*) FROM rows").fetchone()[0]
    db.execute("INSERT INTO rows VALUES (?, ?, ?)", (me, number, me * 2000))
    assert db.execute("SELECT count(*) FROM rows").fetchone()[0] == before + 1
    db.execute("COMMIT")
    if number % 40 == 39:
        db.execute("PRAGMA wal_checkpoint(PASSIVE)")
print("wrote", rows)
"""

READER = """
import os, sqlite3, sys
path = sys.argv[1]
db = sqlite3.connect(path)
print(db.execute("PRAGMA integrity_check").fetchall() == [("ok",)])
print(db.execute("SELECT writer, count(*), min(number), max(number) FROM rows GROUP BY writer ORDER BY 1").fetchall())
print(db.execute("SELECT count(*) FROM rows WHERE text != replace(hex(zeroblob(1000)), '0', writer)").fetchone())
"""

ROWS = 400


@pytest.mark.parametrize("directory", ["/workspace", "/tmp"])
async def test_R42_two_calls_that_write_one_database_at_once_lose_and_spoil_nothing(
    agent, session, sandbox, files, directory
):
    path = f"{directory}/shared/rows.sqlite"
    for name, text in ("maker", MAKER), ("writer", WRITER), ("reader", READER):
        await files.write(f"/workspace/{name}.py", text.encode())

    async def run(name, *argv):
        return await agent.run_call(session, sandbox, name, "Exec", {"argv": ["python3", *argv]})

    made = await run("make", "/workspace/maker.py", path)
    assert made.outcome.exit_code == 0, made
    writers = await asyncio.gather(*(run(me, "/workspace/writer.py", me, str(ROWS), path) for me in "ab"))
    for done in writers:
        assert (done.outcome.exit_code, done.stdout) == (0, f"wrote {ROWS}\n".encode()), done
    read = await run("read", "/workspace/reader.py", path)
    expected = [(me, ROWS, 0, ROWS - 1) for me in "ab"]
    assert read.stdout.decode().splitlines() == ["True", str(expected), "(0,)"], read
