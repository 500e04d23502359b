"""Whether a dependency should be called at all: its circuit and its retry budget."""
