int absent_function();
int main() { return absent_function(); }
