"""The tables of rates of the papers, with numbers."""
