"""Runner images: their form on disk, building them from Debian packages or an OCI layout, and checking them."""
