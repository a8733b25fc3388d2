"""The paper's studies on our solver: data, rows, choices, tables and figures, each beside what the paper has."""
