"""All privileged code. Root does here what nothing else can, on a closed list of typed operations."""
