// CPU time of untyped calls with one payload of 100 bytes, and of typed calls with a std::string of
// that size: driver and executor together, in alternating windows of one run.
//   mobula-bench-untyped [CALLS] [WINDOWS]
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <mobula/dynamic.h>

namespace {

namespace dynamic = mobula::dynamic;

std::string echo(std::string text) { return text; }

std::int64_t cpu_us() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto us = [](const timeval& time) { return time.tv_sec * 1'000'000 + time.tv_usec; };
  return us(used.ru_utime) + us(used.ru_stime);
}

std::int64_t cpu_of_both() { return cpu_us() + mobula::get(mobula::task<cpu_us>.remote()); }

// The host returns its argument, as the typed function does.
void run(dynamic::Call call) {
  call.give(0, dynamic::Payload("bench/1", call.arguments()[0].parts("bench/1")));
  call.done();
}

double typed_us(int calls, const std::string& text) {
  const std::int64_t before = cpu_of_both();
  for (int i = 0; i < calls; ++i) (void)mobula::get(mobula::task<echo>.remote(text));
  return static_cast<double>(cpu_of_both() - before) / calls;
}

double untyped_us(int calls, const std::string& text) {
  const std::int64_t before = cpu_of_both();
  for (int i = 0; i < calls; ++i) {
    const dynamic::Payload value("bench/1", {.body = std::as_bytes(std::span(text))});
    const dynamic::Argument argument{.value = &value};
    const auto refs = dynamic::submit({.name = "echo"}, {}, {&argument, 1});
    const auto fetched = dynamic::get(refs);
    (void)std::get<dynamic::StoredPayload>(fetched[0]).parts("bench/1");
  }
  return static_cast<double>(cpu_of_both() - before) / calls;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  dynamic::set_host({.run = &run});
  const auto cluster = mobula::init(argc, argv, {.address = "local", .num_cpus = 1});
  const int calls = argc > 1 ? std::atoi(argv[1]) : 20'000;
  const int windows = argc > 2 ? std::atoi(argv[2]) : 7;
  const std::string text(100, 'x');
  typed_us(1000, text);
  untyped_us(1000, text);
  std::vector<double> typed, untyped;
  for (int i = 0; i < windows; ++i) {
    typed.push_back(typed_us(calls, text));
    untyped.push_back(untyped_us(calls, text));
  }
  std::printf("typed call    %.2f us of CPU\nuntyped call  %.2f us of CPU, ratio %.2f\n",
              median(typed), median(untyped), median(untyped) / median(typed));
  return 0;
}
