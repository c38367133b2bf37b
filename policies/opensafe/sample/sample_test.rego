# METADATA
# title: Samples
# description: Questions as the daemon sends them, for the tests of the rules, and what tests ask of a verdict.
package opensafe.sample

import data.opensafe.gate

revision := "1-000000000000"

judge(family, question) := verdict if {
	verdict := gate[family] with input as question with data.opensafe.version as revision
}

bash(commands) := call("Bash", {"commands": commands})

call(tool, facts) := {
	"id": "question",
	"kind": "call",
	"call": object.union(
		{
			"id": "call",
			"tool": tool,
			"arguments": {"content": {"bytes": 10, "sha256": "aa", "shapes": {}}},
			"digest": "d1",
			"opaque": false,
			"opaque_reasons": [],
			"commands": [],
			"reads": [],
			"writes": [],
			"deletes": [],
			"hosts": [],
			"env": {},
			"size": 0,
			"content_opaque": false,
			"tree": false,
			"stdin": false,
			"user": null,
			"server": "",
			"description_digest": "",
			"pinned_digest": "",
			"risk": "low",
			"untrusted": false,
		},
		facts,
	),
	"principal": {"name": "default", "roles": ["developer"]},
	"session": {
		"id": "ses", "agent": "", "age_s": 0, "taints": [], "counts": {},
		"window": {"calls_1m": 1, "blocks_10m": 0}, "recent_tools": [], "banned": false,
	},
	"budget": {"usage": unused, "principal": unused, "limits": {}},
	"sandbox": {
		"id": "", "template": "base", "profile": "default", "image_digest": "",
		"workspace": "/workspace", "limits": null,
	},
	"approval": null,
	"egress": null,
	"runtime": null,
}

unused := {"calls": 0, "wall_s": 0, "requests": 0, "egress_bytes": 0, "ingress_bytes": 0, "tokens": 0, "cost_microusd": 0}

# A connection to an allowed host that a running call was granted.
egress(changes) := object.union(call("", {}), {"kind": "egress", "egress": object.union(
	{
		"layer": "tls",
		"host": host("docs.python.org", ["allowed"]),
		"sni": "docs.python.org",
		"authority": "",
		"method": "",
		"path": "",
		"upgrade": "",
		"terminated": false,
		"credential": "",
		"address": object.union(host("151.101.0.223", []), {"ip_literal": true}),
		"granted": true,
		"bytes_sent": 0,
		"bytes_received": 0,
		"host_requests": 0,
		"host_sent": 0,
		"host_received": 0,
		"label": {"longest": 6, "length": 15, "entropy": 2900, "names": 1},
	},
	changes,
)})

dns(changes) := egress(object.union(
	{
		"layer": "dns",
		"host": object.union(host("docs.python.org", ["allowed"]), {"port": null}),
		"sni": "",
		"address": null,
		"label": {"longest": 6, "length": 15, "entropy": 2900, "names": 1},
	},
	changes,
))

runtime(changes) := object.union(call("", {}), {"kind": "runtime", "runtime": object.union(
	{"event": "exec", "syscall": "", "path": "/usr/bin/python3", "announced": true},
	changes,
)})

sandbox := object.union(call("Sandbox", {}), {
	"kind": "sandbox",
	"sandbox": {
		"id": "sb",
		"template": "base",
		"profile": "default",
		"image_digest": "",
		"workspace": "/workspace",
		"limits": {
			"memory_bytes": 1073741824,
			"pids": 1024,
			"cpu_millis": 2000,
			"workspace_bytes": 536870912,
			"tmp_bytes": 268435456,
			"shm_bytes": 67108864,
			"root_overlay_bytes": 268435456,
		},
	},
})

command(argv) := {
	"program": argv[0],
	"argv": argv,
	"assignments": {},
	"redirects": [],
	"position": "top",
	"via": [],
	"opaque": false,
}

with_field(item, changes) := object.union(item, changes)

path(name, classes) := {"path": name, "classes": {class: true | some class in classes}}

host(name, classes) := {
	"name": name,
	"port": 443,
	"scheme": "https",
	"ip_literal": false,
	"userinfo": false,
	"classes": {class: true | some class in classes},
}

without(question, pointer) := json.remove(question, [pointer])

allowed_by(verdict, rule) if {
	verdict.action == "allow"
	fired(verdict, rule, "allow")
}

blocked_by(verdict, rule) if {
	verdict.action == "block"
	fired(verdict, rule, "block")
}

reviewed_by(verdict, rule) if {
	verdict.action == "review"
	fired(verdict, rule, "review")
}

allowed(verdict, rule) if {
	verdict.action == "allow"
	not named(verdict, rule)
}

fired(verdict, rule, action) if {
	some item in verdict.rules
	item.id == rule
	item.action == action
	item.reason != ""
}

named(verdict, rule) if verdict.rules[_].id == rule
