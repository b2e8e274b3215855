"""What a run is: its options, plan, manifest, directory, memory budget and workers."""
