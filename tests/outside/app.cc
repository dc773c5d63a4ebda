// The whole program of the README, as a user would build it.
#include <mobula/mobula.h>
#include <iostream>

int square(int x) { return x * x; }

class Counter {
 public:
  explicit Counter(int start) : value_(start) {}
  int add(int by) { return value_ += by; }

 private:
  int value_;
};

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);

  auto four = mobula::task<square>.remote(2);
  auto sixteen = mobula::task<square>.options({.num_cpus = 0.5}).remote(four);

  auto counter = mobula::actor<Counter>.options({.max_restarts = 3}).remote(10);
  auto value = counter.call<&Counter::add>(5);

  std::cout << mobula::get(sixteen) << " " << mobula::get(value) << "\n";
}
