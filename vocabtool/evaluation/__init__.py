"""How good an index is, by judged queries and by itself, and what its keyword leg should weigh."""
