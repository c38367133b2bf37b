"""gVisor sandboxes: specification, life cycle, programs in them, limits around them."""
