// Reads results in the order in which tasks finish.
#include <mobula/mobula.h>
#include <mobula/on_ready.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <vector>

int square(int x) { return x * x; }

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  std::vector<mobula::ObjectRef<int>> refs;
  for (int i = 0; i < 100; ++i) refs.push_back(mobula::task<square>.remote(i));

  mobula::CompletionQueue queue;
  for (std::size_t i = 0; i < refs.size(); ++i) queue.add(refs[i], i);
  std::uint64_t ready[16];
  while (queue.outstanding() > 0) {
    const std::size_t count = queue.take(ready, std::chrono::seconds(10));
    for (std::size_t i = 0; i < count; ++i) std::cout << mobula::get(refs[ready[i]]) << "\n";
  }
}
