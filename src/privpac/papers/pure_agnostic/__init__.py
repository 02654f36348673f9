"""Pure private agnostic learning: counting users with too many mistakes, the search for a threshold, the least error of
a class, and small random sets of rules that stand in for one.  Read ``counting`` first."""
