"""What stands around the spine: judging and recording, sessions and sandboxes, reviews, permits."""
