"""Front doors of other people's frameworks, one package or module each; none is imported but by whoever uses it."""
