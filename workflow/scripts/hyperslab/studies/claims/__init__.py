"""Claims as a study writes them: sentences of a document as comparisons, checked and filled in."""
