"""Pure private learners for any labels: users counted by their mistakes, searches, and the least error itself."""
