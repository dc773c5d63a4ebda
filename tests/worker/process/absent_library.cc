int absent_function();
int absent_function() { return 0; }
