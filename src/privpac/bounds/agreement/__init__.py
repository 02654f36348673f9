"""Learning by agreement: users for a plurality, records for an item."""
