"""Results: from records to tables, intervals, scores and a recommendation."""
