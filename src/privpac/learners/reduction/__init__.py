"""From learners for clean labels to learners for any labels."""
