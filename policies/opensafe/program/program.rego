# METADATA
# title: Programs
# description: Programs that no agent needs, in Bash and Exec alike, also where a wrapper starts them.
package opensafe.program

import data.opensafe.command
import data.opensafe.config
import data.opensafe.hit
import data.opensafe.write

# METADATA
# title: The loader's own settings
# description: Files by which the dynamic loader loads other code into every program.
# custom:
#   id: tool.exec.preload.deny
#   severity: critical
#   threat: T2
blocks contains hit.block(
	"tool.exec.preload.deny", "critical",
	$"{path.path} makes every program load other code", path.path, "Leave the loader's settings alone.",
) if {
	some path in input.call.writes
	startswith(path.path, "/etc/ld.so.")
}

# METADATA
# title: Denied is unlisted
# description: >-
#   A denied program is one that no rule allows either. Said once, however many there are, so that the rules that name
#   them are not cut.
# custom:
#   id: default.deny
#   severity: medium
#   threat: E5
blocks contains hit.block(
	"default.deny", "medium",
	"no rule allows a program that the site denies", "", "Leave the program out.",
) if {
	count(command.denied) > 0
}

# METADATA
# title: Changing user
# description: Programs that change the user or its privileges. The sandbox has one user.
# custom:
#   id: tool.exec.sudo.deny
#   severity: critical
#   threat: E2
blocks contains hit.block(
	"tool.exec.sudo.deny", "critical",
	$"`{name}` changes the user or its privileges", name, $"Run the command without `{name}`.",
) if {
	some name in command.denied.privilege
}

# METADATA
# title: Namespaces and mounts
# description: Programs that make or enter namespaces, roots and mounts.
# custom:
#   id: tool.exec.namespace.deny
#   severity: critical
#   threat: E2
blocks contains hit.block(
	"tool.exec.namespace.deny", "critical",
	$"`{name}` makes or enters a namespace, root or mount", name, $"Leave `{name}` out; work beneath /workspace.",
) if {
	some name in command.denied.namespace
}

# METADATA
# title: Kernel
# description: Programs that change or observe the kernel.
# custom:
#   id: tool.exec.kernel.deny
#   severity: critical
#   threat: E2
blocks contains hit.block(
	"tool.exec.kernel.deny", "critical",
	$"`{name}` changes or observes the kernel", name, $"Leave `{name}` out.",
) if {
	some name in command.denied.kernel
}

# METADATA
# title: Kernel settings
# description: Files by which the kernel is changed.
# custom:
#   id: tool.exec.kernel.deny
#   severity: critical
#   threat: E2
blocks contains hit.block(
	"tool.exec.kernel.deny", "critical",
	$"{path.path} is a setting of the kernel", path.path, "Leave the kernel's settings alone.",
) if {
	some path in input.call.writes
	some root in ["/proc/sys/", "/proc/sysrq-trigger", "/sys/", "/dev/kmsg"]
	startswith(path.path, root)
}

# METADATA
# title: Debuggers
# description: Programs that read, change or trace other processes.
# custom:
#   id: tool.exec.debugger.deny
#   severity: high
#   threat: S2
blocks contains hit.block(
	"tool.exec.debugger.deny", "high",
	$"`{name}` traces or changes processes", name, "Use the language's own debugger or tests, such as `python3 -m pdb`.",
) if {
	some name in command.denied.debugger
}

# METADATA
# title: Containers
# description: Programs that start containers or talk to a cluster.
# custom:
#   id: tool.exec.container.deny
#   severity: high
#   threat: E2
blocks contains hit.block(
	"tool.exec.container.deny", "high",
	$"`{name}` starts containers or talks to a cluster", name, "Run the program itself; it is in a sandbox already.",
) if {
	some name in command.denied.container
}

# METADATA
# title: Container sockets
# description: Sockets by which containers are started, whatever program talks to them.
# custom:
#   id: tool.exec.container.deny
#   severity: critical
#   threat: E2
blocks contains hit.block(
	"tool.exec.container.deny", "critical",
	$"{path.path} is the socket of a container engine", path.path, "Run the program itself; it is in a sandbox already.",
) if {
	some path in input.call.reads
	endswith(path.path, ".sock")
	parts := split(path.path, "/")
	parts[count(parts) - 1] in {
		"buildkitd.sock", "containerd.sock", "cri-dockerd.sock", "crio.sock", "docker.sock", "podman.sock",
	}
}

# METADATA
# title: Persistence
# description: Schedulers and service managers, which run programs after the call.
# custom:
#   id: tool.exec.persistence.deny
#   severity: critical
#   threat: T14
blocks contains hit.block(
	"tool.exec.persistence.deny", "critical",
	$"`{name}` makes programs run later", name, "Run the program in this call.",
) if {
	some name in command.denied.persistence
}

# METADATA
# title: Persistence by files
# description: Commands that write schedules, units and autostart entries.
# custom:
#   id: tool.exec.persistence.deny
#   severity: critical
#   threat: T14
blocks contains hit.block(
	"tool.exec.persistence.deny", "critical",
	$"{path.path} makes programs run later", path.path, "Write a script beneath /workspace and run it in this call.",
) if {
	some path in input.call.writes
	not write.clear(path, "persistence")
}

# METADATA
# title: Miners
# description: Programs that mine, and the protocol they speak.
# custom:
#   id: tool.exec.miner.deny
#   severity: high
#   threat: D2
blocks contains hit.block("tool.exec.miner.deny", "high", $"`{name}` mines", name, $"Leave `{name}` out.") if {
	some name in command.denied.miner
}

# METADATA
# title: Miners' options
# description: An option that only miners have, whatever the program is called.
# custom:
#   id: tool.exec.miner.deny
#   severity: high
#   threat: D2
blocks contains hit.block(
	"tool.exec.miner.deny", "high",
	$"`{item.program} {argument}` mines", item.program, $"Leave `{item.program}` out.",
) if {
	some item in input.call.commands
	some argument in item.argv
	startswith(argument, "--")
	split(argument, "=")[0] in {"--cpu-max-threads-hint", "--donate-level", "--nicehash", "--randomx-mode", "--start-mining"}
}

# METADATA
# title: Mining pools
# description: A host named with the miners' protocol, whatever the program is called.
# custom:
#   id: tool.exec.miner.deny
#   severity: high
#   threat: D2
blocks contains hit.block("tool.exec.miner.deny", "high", $"{host.name} is a mining pool", host.name, "Leave the pool out.") if {
	some host in input.call.hosts
	not _no_pool(host)
}

# METADATA
# title: Scanners
# description: Programs that look for hosts, open ports, weaknesses or passwords.
# custom:
#   id: tool.exec.scanner.deny
#   severity: high
#   threat: I3
blocks contains hit.block(
	"tool.exec.scanner.deny", "high",
	$"`{name}` looks for hosts, weaknesses or passwords", name, $"Leave `{name}` out.",
) if {
	some name in command.denied.scanner
}

# METADATA
# title: Destruction
# description: Programs that destroy file systems and devices.
# custom:
#   id: tool.bash.destructive.deny
#   severity: critical
#   threat: T16
blocks contains hit.block(
	"tool.bash.destructive.deny", "critical",
	$"`{name}` destroys a file system or device", name, $"Leave `{name}` out.",
) if {
	some name in command.denied.destructive
}

# METADATA
# title: Shell history
# description: Builtins that show, change or clear the shell's history.
# custom:
#   id: tool.bash.history.deny
#   severity: high
#   threat: R4
blocks contains hit.block(
	"tool.bash.history.deny", "high",
	$"`{name}` shows or changes the shell's history", name, $"Leave `{name}` out.",
) if {
	some name in command.denied.history
}

# METADATA
# title: History variables
# description: Variables that switch the shell's history off or move it.
# custom:
#   id: tool.bash.history.deny
#   severity: high
#   threat: R4
blocks contains hit.block(
	"tool.bash.history.deny", "high",
	$"{name} changes what the shell's history keeps", name, $"Leave {name} as it is.",
) if {
	some name in command.variables
	config.programs.history_variables[name]
}

# METADATA
# title: History option
# description: The shell's option that switches history off.
# custom:
#   id: tool.bash.history.deny
#   severity: high
#   threat: R4
blocks contains hit.block(
	"tool.bash.history.deny", "high",
	$"`{item.program}` changes what the shell's history keeps", item.program, "Leave the history's options as they are.",
) if {
	some program in ["set", "shopt"]
	some at in command.at[program]
	item := input.call.commands[at]
	some argument in item.argv
	argument in {"history", "histappend", "histexpand", "cmdhist"}
}

# METADATA
# title: History files
# description: Files of a history that a command writes.
# custom:
#   id: tool.bash.history.deny
#   severity: high
#   threat: R4
blocks contains hit.block(
	"tool.bash.history.deny", "high",
	$"{path.path} is a command history", path.path, "Leave histories alone.",
) if {
	some path in input.call.writes
	not write.clear(path, "history")
}

_no_pool(host) if host.scheme == null

_no_pool(host) if not startswith(host.scheme, "stratum")
