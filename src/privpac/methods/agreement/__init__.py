"""Learning by agreement with a curator: every user names one item, the plurality is released."""
