"""The command line's commands, one module each: `add` declares it, `run` carries it out."""
