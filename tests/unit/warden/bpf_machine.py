"""Classic BPF as the kernel runs it (bpf(4)): what a filter answers, by running it."""

import struct

X86_64, I386, X86_64_BIG_ENDIAN = 0xC000003E, 0x40000003, 0x4000003E


def data(number, arguments=(), arch=X86_64):
    """struct seccomp_data."""
    six = [*arguments, *(0 for _ in range(6 - len(arguments)))]
    return struct.pack("<IIQ6Q", number, arch, 0, *six)


class Machine:
    """One program, taken apart once."""

    def __init__(self, program):
        self.instructions = list(struct.iter_unpack("<HBBI", program))

    def answer(self, number, arguments=(), arch=X86_64):
        """What the program returns. Raises where the kernel would have refused to install it."""
        return self.run(data(number, arguments, arch))[0]

    def run(self, packet):
        """(what it returns, how many instructions that took)."""
        accumulator, at, steps = 0, 0, 0
        while True:
            code, if_true, if_false, value = self.instructions[at]
            at, steps = at + 1, steps + 1
            match code:
                case 0x20:  # BPF_LD | BPF_W | BPF_ABS
                    if value % 4:
                        raise ValueError(f"load at {value}")
                    (accumulator,) = struct.unpack_from("<I", packet, value)
                case 0x54:  # BPF_ALU | BPF_AND | BPF_K
                    accumulator &= value
                case 0x05:  # BPF_JMP | BPF_JA
                    at += value
                case 0x15:  # BPF_JMP | BPF_JEQ | BPF_K
                    at += if_true if accumulator == value else if_false
                case 0x25:  # BPF_JMP | BPF_JGT | BPF_K
                    at += if_true if accumulator > value else if_false
                case 0x35:  # BPF_JMP | BPF_JGE | BPF_K
                    at += if_true if accumulator >= value else if_false
                case 0x06:  # BPF_RET | BPF_K
                    return value, steps
                case _:
                    raise ValueError(f"instruction {code:#x}")
