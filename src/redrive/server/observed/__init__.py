"""What the endpoints that show all flows together answer: pure functions over what the store has."""
