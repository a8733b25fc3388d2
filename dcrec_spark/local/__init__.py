"""Many small fits, side by side on the cluster: what searches and studies are made of."""
