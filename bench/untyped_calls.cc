// CPU time of untyped calls with one payload of 100 bytes, and of typed calls with a std::string of
// that size: driver and executor together, in alternating windows of one run. Then the time from a
// cancel to the cancel hook of the host.
//   mobula-bench-untyped [CALLS] [WINDOWS] [CANCELS]
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
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

// One clock for all processes of the machine.
std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// Requests of the cancel hook, which only queues them.
struct Cancels {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<dynamic::CallId> calls;
  std::int64_t latest_ns = 0;  // time of the latest request
};
Cancels& cancels() {
  static Cancels all;
  return all;
}
void note_cancel(dynamic::CallId call) {
  const std::lock_guard lock(cancels().mutex);
  cancels().latest_ns = now_ns();
  cancels().calls.insert(call);
  cancels().changed.notify_all();
}

void give(dynamic::Call& call, std::int64_t number) {
  call.give(0, dynamic::Payload("bench/1", {.body = std::as_bytes(std::span(&number, 1))}));
  call.done();
}

// The host returns its argument, as the typed function does.
void run(dynamic::Call call) {
  const std::string_view name = call.callable().name;
  if (name == "Waiter") {
    call.created(std::make_shared<int>(0));
    call.done();
  } else if (name == "Waiter.wait") {
    // Marks the actor as waiting, and keeps its runner until the call is cancelled.
    auto& waits = *static_cast<int*>(call.self());
    std::unique_lock lock(cancels().mutex);
    ++waits;
    cancels().changed.wait(lock,
                           [&] { return call.cancelled() && cancels().calls.contains(call.id()); });
    lock.unlock();
    give(call, 0);
  } else if (name == "Waiter.waits") {
    const std::lock_guard lock(cancels().mutex);
    give(call, *static_cast<int*>(call.self()));
  } else if (name == "Waiter.cancelled at") {
    const std::lock_guard lock(cancels().mutex);
    give(call, cancels().latest_ns);
  } else {
    call.give(0, dynamic::Payload("bench/1", call.arguments()[0].parts("bench/1")));
    call.done();
  }
}

std::int64_t number_of(const mobula::AnyActor& actor, std::string_view method) {
  const auto refs = dynamic::call(actor, {.name = method}, {}, {});
  const auto fetched = dynamic::get(refs);
  const auto parts = std::get<dynamic::StoredPayload>(fetched[0]).parts("bench/1");
  std::int64_t number = 0;
  std::memcpy(&number, parts.body.data(), sizeof number);
  return number;
}

// Times in ms from a cancel of a running call to the call of the hook, ascending.
std::vector<double> cancel_times(int count) {
  const auto actor = dynamic::create({.name = "Waiter", .class_name = "Waiter"},
                                     {.num_cpus = 0, .max_concurrency = 2}, {});
  std::vector<double> times;
  for (int i = 1; i <= count; ++i) {
    const auto refs = dynamic::call(actor, {.name = "Waiter.wait"}, {}, {});
    while (number_of(actor, "Waiter.waits") < i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::int64_t began = now_ns();
    dynamic::cancel(refs[0]);
    (void)dynamic::get(refs);
    times.push_back(1e-6 * static_cast<double>(number_of(actor, "Waiter.cancelled at") - began));
  }
  std::sort(times.begin(), times.end());
  return times;
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
  dynamic::set_host({.run = &run, .cancel = &note_cancel});
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
  const auto times = cancel_times(argc > 3 ? std::max(1, std::atoi(argv[3])) : 1000);
  std::printf("typed call    %.2f us of CPU\nuntyped call  %.2f us of CPU, ratio %.2f\n",
              median(typed), median(untyped), median(untyped) / median(typed));
  std::printf("cancel to hook  median %.3f ms, 99 %% within %.3f ms, longest of %zu %.3f ms\n",
              times[times.size() / 2], times[times.size() * 99 / 100], times.size(), times.back());
  return 0;
}
