"""Points cards: the public codes of their columns (``codes``), the card that is released (``card``), and the class that
names columns and cuts (``family``).  Read ``card`` first."""
