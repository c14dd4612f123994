"""Which indexes would pay for a workload."""
