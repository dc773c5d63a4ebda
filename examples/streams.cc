// A task that yields its results one after another. The caller reads each before the task ends.
#include <mobula/mobula.h>

#include <iostream>

mobula::generator<int> squares(int count) {
  for (int i = 0; i < count; ++i) co_yield i* i;
}

int sum(mobula::ObjectRefStream<int> stream) {
  int total = 0;
  for (const auto& ref : stream) total += mobula::get(ref);
  return total;
}

int main(int argc, char** argv) {
  const auto cluster = mobula::init(argc, argv);
  auto stream = mobula::task<squares>.options({.stream_window = 8}).remote(5);
  const auto total = mobula::task<sum>.remote(stream);  // a second consumer
  while (const auto ref = stream.next()) std::cout << mobula::get(*ref) << "\n";
  std::cout << "sum " << mobula::get(total) << "\n";

  // A number of results that the caller does not know.
  const auto refs = mobula::task<squares>.remote(3).rest();
  std::cout << refs.size() << " results, the last is " << mobula::get(refs.back()) << "\n";
}
