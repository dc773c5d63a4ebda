// Keeps one multiprocessor busy for so many clock ticks: a user's kernel in the way of others.
extern "C" __global__ void spin(unsigned long long ticks) {
  const unsigned long long begin = clock64();
  while (clock64() - begin < ticks) {
  }
}
