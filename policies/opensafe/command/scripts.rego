package opensafe.command

# A script of its own by which a program may start others (sed's `e`, an editor's `!`), where the normaliser says so.
inline contains place if {
	some reason in input.call.opaque_reasons
	name := split(reason, ":")[0]
	_scripted[name]
	some place, item in input.call.commands
	item.program == name
}

# Code that may do more than compute and use files, in whatever language.
inline contains place if {
	some reason in input.call.opaque_reasons
	parts := split(reason, ": code that ")
	count(parts) == 2
	some place in at[parts[0]]
}

_scripted := {"awk", "ed", "emacs", "ex", "gawk", "less", "m4", "man", "mawk", "nawk", "nvim", "sed", "vi", "view", "vim"}

# Verbs by which an ordinary tool does what a program of a class does.
denied[class] contains name if {
	some name, verbs in _denied_verbs
	some place in at[name]
	class := verbs[verb(input.call.commands[place])]
}

_denied_verbs := {"ip": {
	"link": "kernel", "netns": "namespace", "route": "kernel", "rule": "kernel", "tuntap": "kernel", "xfrm": "kernel",
}}
