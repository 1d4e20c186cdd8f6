"""Who computes a batch: one runner per rank, and executors that hand it batches."""
