"""What the benchmark of the dashboard's page is made of."""
