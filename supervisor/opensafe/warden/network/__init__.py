"""Network namespaces of sandboxes and of the gateway."""
