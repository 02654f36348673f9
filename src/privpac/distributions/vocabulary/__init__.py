"""Mass functions over vocabularies that nobody can list: what people hold is found, and shown if enough of them do."""
