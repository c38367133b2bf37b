"""From a tool call's bytes to what policy may know of it.

Everything here is a pure function of its arguments and total: any input gives a result or a typed error, so
that the room can be fuzzed as it is and a recorded call can be judged again with the same outcome.
"""
