"""One module per library; each is imported only when used."""
