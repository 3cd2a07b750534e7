"""The operators: one file per family, which registers its handlers."""
