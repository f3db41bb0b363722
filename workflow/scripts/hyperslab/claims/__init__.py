"""Claims: sentences of a source document as comparisons over results, and a verdict on each."""
