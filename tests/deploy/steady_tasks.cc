// A program for tests of leaving nodes: runs batches of tasks without retries until a file exists.
//
// Usage: steady_tasks FILE. Exits 0 if every task succeeded, and prints their number.
#include <mobula/mobula.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <thread>
#include <vector>

int pause_for(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  return 1;
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  if (argc != 2) return 2;
  const std::filesystem::path stop = argv[1];
  int done = 0;
  do {
    std::vector<mobula::ObjectRef<int>> batch;
    for (int i = 0; i < 16; ++i)
      batch.push_back(
          mobula::task<pause_for>.options({.num_cpus = 1, .max_retries = 0}).remote(500));
    for (const auto& each : batch) done += mobula::get(each);
  } while (!std::filesystem::exists(stop));
  std::cout << done << "\n";
}
