"""What scripts/bench/{regret,latency} stand on: problems, optimisers behind one interface, what is made of
results."""
