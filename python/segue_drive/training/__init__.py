"""Training of the embedded model: data, stages, checkpoints, curves. See `python/README.md` for the commands."""
