// For a console:  mobula repl -c 'use ./example_console; call mean [1, 2, 6]'
//   Functions of task<f> and actor<C> can be called with JSON. A struct is an array of its members.
#include <mobula/mobula.h>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

struct Point {
  double x = 0;
  double y = 0;
};

int square(int x) { return x * x; }

double mean(const std::vector<double>& values) {
  if (values.empty()) throw std::invalid_argument("the mean of nothing");
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::string greet(const std::string& name, std::optional<int> times) {
  std::string text;
  for (int i = 0; i < times.value_or(1); ++i) text += "Hello, " + name + "! ";
  return text;
}

Point moved(Point point, double by) { return {point.x + by, point.y + by}; }

std::map<std::string, int> counted(const std::vector<std::string>& words) {
  std::map<std::string, int> counts;
  for (const auto& word : words) ++counts[word];
  return counts;
}

std::vector<std::string> my_gpus() { return mobula::current().gpu_ids(); }

class Counter {
 public:
  explicit Counter(int start) : value_(start) {}
  int add(int by) { return value_ += by; }
  int value() const { return value_; }

 private:
  int value_;
};

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);  // in a console, init does not return

  auto counter = mobula::actor<Counter>.remote(10);
  auto sum = counter.call<&Counter::add>(5);
  auto four = mobula::task<square>.remote(2);
  auto point = mobula::task<moved>.remote(Point{1, 2}, 0.5);
  auto counts = mobula::task<counted>.remote(std::vector<std::string>{"a", "b", "a"});
  auto gpus = mobula::task<my_gpus>.remote();
  std::cout << mobula::get(mobula::task<greet>.remote(std::string("you"), std::optional<int>()))
            << "\n"
            << "mean " << mobula::get(mobula::task<mean>.remote(std::vector<double>{1, 2, 6}))
            << ", square " << mobula::get(four) << ", counter " << mobula::get(sum) << " and "
            << mobula::get(counter.call<&Counter::value>()) << ", point " << mobula::get(point).x
            << ", a " << mobula::get(counts).at("a") << ", GPUs " << mobula::get(gpus).size()
            << "\n";
}
