// A program for tests of leaving nodes.
//
// steady_tasks FILE: Runs batches of tasks without retries until the file exists. Prints the number
// of tasks. Exits with 0 if every task succeeded.
// steady_tasks -: For each number on standard input, runs that many tasks with retries and prints
// the sum of their results.
#include <mobula/mobula.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

int pause_for(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  return 1;
}

namespace {

int run_tasks(int count, int milliseconds, int retries) {
  std::vector<mobula::ObjectRef<int>> batch;
  for (int i = 0; i < count; ++i) {
    const auto call = mobula::task<pause_for>.options({.num_cpus = 1, .max_retries = retries});
    batch.push_back(call.remote(milliseconds));
  }
  int done = 0;
  for (const auto& each : batch) done += mobula::get(each);
  return done;
}

}  // namespace

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  if (argc != 2) return 2;
  if (std::string(argv[1]) == "-") {
    for (int count = 0; std::cin >> count;) std::cout << run_tasks(count, 300, -1) << std::endl;
    return 0;
  }
  const std::filesystem::path stop = argv[1];
  int done = 0;
  do {
    done += run_tasks(16, 500, 0);
  } while (!std::filesystem::exists(stop));
  std::cout << done << "\n";
}
