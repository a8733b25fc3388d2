"""What a fit will take: seconds and bytes by its size and by the cluster, with coefficients that were measured."""
