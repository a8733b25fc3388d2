"""Fits in memory, many side by side on the cluster, for searches and studies."""
