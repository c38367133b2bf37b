"""Programs for the guest, as Python source: families of processes that are hard to get rid of."""

#: N daemons, each double-forked into a session of its own, so that its parent is gone and its group is new.
DAEMONS = """
import os, sys, time
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                time.sleep(1)
        os._exit(0)
    os.wait()
print("ready", flush=True)
time.sleep(1000)
"""

#: N daemons that fork and leave the old self as fast as they can.
RACERS = """
import os, sys, time
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        os.setsid()
        while True:
            if os.fork():
                os._exit(0)
print("ready", flush=True)
time.sleep(1000)
"""

#: The program ends at once and leaves N children behind.
ORPHANS = """
import os, sys, time
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        time.sleep(float(sys.argv[2]))
        os._exit(0)
"""

#: The number of processes but PID 1, the runners and itself; how many of them are zombies; the first five.
COUNT = """
import os
def of(pid):
    with open(f"/proc/{pid}/stat") as file:
        text = file.read()
    return text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2]
found = []
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) not in (1, os.getpid()):
        try:
            found.append(of(name))
        except OSError:
            pass
found = [one for one in found if not one[0].startswith("run")]
print(len(found), sum(state == "Z" for _, state in found), found[:5])
"""

#: What numbers are answered, with arguments that no call can use: those in the second list in a child each.
ANSWERS = """
import ctypes, errno, json, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
bad = [ctypes.c_long(-1)] * 6
def answer(number):
    return ctypes.get_errno() if libc.syscall(ctypes.c_long(number), *bad) == -1 else 0
answers = {number: errno.errorcode.get(answer(number)) for number in json.loads(sys.argv[1])}
for number in json.loads(sys.argv[2]):
    child = os.fork()
    if child == 0:
        # For those that wait for something.
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        os._exit(answer(number))
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS
    answers[number] = "SIGSYS" if killed else errno.errorcode.get(os.waitstatus_to_exitcode(status))
print(json.dumps(answers))
"""
