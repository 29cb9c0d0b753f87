"""What scripts/bench/{regret,latency} stand on: problems, optimisers behind one interface, and what is made of results."""
