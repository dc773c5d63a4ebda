#include "dynamic/cpp_host.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

namespace mobula::dynamic {
namespace {

std::map<std::string, Function>& functions() {
  static std::map<std::string, Function> all;
  return all;
}

// Calls whose cancellation was requested.
struct Cancelled {
  std::mutex mutex;
  std::multiset<CallId> calls;
};
Cancelled& cancelled_calls() {
  static Cancelled all;
  return all;
}
std::size_t cancels_of(CallId call) {
  auto& cancelled = cancelled_calls();
  const std::lock_guard lock(cancelled.mutex);
  return cancelled.calls.count(call);
}

struct Counter {
  int count = 0;
  ~Counter() {
    if (const char* path = std::getenv("DYNAMIC_TEST_DESTROYED")) std::ofstream(path) << count;
  }
};

// Calls that their function has left.
struct Held {
  std::mutex mutex;
  std::vector<Call> calls;
};

std::string threads_of_process() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return line.substr(line.find_first_of("0123456789"));
  }
  return {};
}

void give_text(Call& call, std::string text) { call.give(0, Text(std::move(text)).value()); }

void add_all() {
  // All arguments after each other.
  add_function("concat", [](Call call) {
    std::string all;
    for (const auto& each : call.arguments()) all += text_of(each);
    give_text(call, all);
    call.done();
  });
  // "NAME I" for each result I, from the last to the first.
  add_function("enumerate", [](Call call) {
    for (int i = call.returns().count; i-- > 0;)
      call.give(static_cast<std::size_t>(i),
                Text(std::string(call.callable().name) + " " + std::to_string(i)).value());
    call.done();
  });
  add_function("fail", [](Call call) { call.fail(failure("no luck")); });
  add_function("throw", [](Call) { throw std::runtime_error("thrown by the host"); });
  add_function("drop", [](Call) {});
  add_function("too few", [](Call call) { call.done(); });
  add_function("twice", [](Call call) {
    give_text(call, "the first");
    call.done();
    call.fail(failure("ignored"));
    call.done();
  });
  add_function("give twice", [](Call call) {
    give_text(call, "a");
    try {
      give_text(call, "b");
    } catch (const InvalidRequestError&) {
      call.done();
    }
  });
  // Completes on another thread, after run has returned.
  add_function("later", [](Call call) {
    std::thread([call = std::move(call)]() mutable {
      give_text(call, "from another thread");
      call.done();
    }).detach();
  });
  // Keeps the call until "release" or the end of the actor. It gives its first result at once.
  add_function("Holder", [](Call call) {
    call.created(std::make_shared<Held>());
    call.done();
  });
  add_function("Holder.hold", [](Call call) {
    auto& held = *static_cast<Held*>(call.self());
    if (call.returns().count > 1) call.give(0, Text("first").value());
    const std::lock_guard lock(held.mutex);
    held.calls.push_back(std::move(call));
  });
  add_function("Holder.count", [](Call call) {
    auto& held = *static_cast<Held*>(call.self());
    const std::lock_guard lock(held.mutex);
    give_text(call, std::to_string(held.calls.size()) + " on " + threads_of_process());
    call.done();
  });
  // Completes the held calls in random order, from eight threads.
  add_function("Holder.release", [](Call call) {
    auto& held = *static_cast<Held*>(call.self());
    std::vector<Call> calls;
    {
      const std::lock_guard lock(held.mutex);
      calls.swap(held.calls);
    }
    std::shuffle(calls.begin(), calls.end(), std::mt19937(1));
    std::vector<std::thread> threads;
    for (std::size_t of = 0; of < 8; ++of) {
      threads.emplace_back([&calls, of] {
        for (std::size_t i = of; i < calls.size(); i += 8) {
          const auto last = static_cast<std::size_t>(calls[i].returns().count) - 1;
          calls[i].give(last, Text(std::to_string(calls[i].id())).value());
          calls[i].done();
        }
      });
    }
    for (auto& each : threads) each.join();
    give_text(call, std::to_string(calls.size()));
    call.done();
  });
  // As many items as its argument states, then an error if there is a second argument.
  const auto stream = [](Call call) {
    const auto count = std::stoul(text_of(call.arguments()[0]));
    for (std::size_t i = 0; i < count; ++i) {
      if (!call.give(i, Text("item " + std::to_string(i)).value())) return;
    }
    if (call.arguments().size() > 1) return call.fail(failure("no more items"));
    call.done();
  };
  add_function("stream", stream);
  add_function("Counter.stream", stream);
  // Another thread gives the items, after run has returned.
  add_function("stream later", [](Call call) {
    std::thread([call = std::move(call)]() mutable {
      for (std::size_t i = 0; i < 3; ++i) call.give(i, Text(std::to_string(i)).value());
      try {
        call.give(5, Text("too early").value());
      } catch (const InvalidRequestError&) {
        call.done();
      }
    }).detach();
  });
  add_function("Holder.pid", [](Call call) {
    give_text(call, std::to_string(::getpid()));
    call.done();
  });
  add_function("Holder.leave", [](Call call) { call.exit_actor(); });
  add_function("Holder.drop", [](Call call) {
    auto& held = *static_cast<Held*>(call.self());
    {
      const std::lock_guard lock(held.mutex);
      held.calls.clear();
    }
    give_text(call, "dropped");
    call.done();
  });
  // Completes a held call that was cancelled.
  add_function("Holder.answer cancelled", [](Call call) {
    auto& held = *static_cast<Held*>(call.self());
    const std::lock_guard lock(held.mutex);
    std::size_t requested = 0;
    for (auto& each : held.calls) requested += cancels_of(each.id());
    std::erase_if(held.calls, [](const Call& each) { return cancels_of(each.id()) > 0; });
    give_text(call, std::to_string(requested));
    call.done();
  });
  // Fails in the first two attempts.
  add_function("third attempt", [](Call call) {
    if (call.context()->attempt < 2)
      return call.fail(failure("attempt " + std::to_string(call.context()->attempt)));
    give_text(call, "attempt " + std::to_string(call.context()->attempt));
    call.done();
  });
  add_function("final", [](Call call) {
    call.fail(failure("attempt " + std::to_string(call.context()->attempt), false));
  });
  // The refs, handles, and tensors inside its first argument.
  add_function("inner", [](Call call) {
    const auto parts = call.arguments()[0].parts(format);
    std::string all;
    for (const AnyRef& each : parts.refs) all += text_of(each);
    for (const AnyActor& each : parts.actors)
      all += text_of(dynamic::call(each, {.name = "Counter.add"}, {}, {})[0]);
    for (const Tensor& each : parts.tensors)
      all += std::to_string(each.view<float>()[0]).substr(0, 3);
    give_text(call, all);
    call.done();
  });
  // A value with a ref to another new value, and a tensor.
  add_function("nested result", [](Call call) {
    const AnyRef inner = dynamic::put(Text("inside").value());
    call.give(0, Text("outside", {inner}, {}, {Tensor::zeros({100'000})}).value());
    call.done();
  });
  add_function("buffer", [](Call call) {
    const auto parts = call.arguments()[0].parts(format);
    bool aligned = parts.buffers.size() == 1;
    std::size_t sum = 0;
    for (const auto& each : parts.buffers) {
      aligned &= reinterpret_cast<std::uintptr_t>(each.data()) % 64 == 0;
      for (const std::byte one : each) sum += static_cast<std::size_t>(one);
    }
    give_text(call, (aligned ? "aligned " : "shifted ") + std::to_string(sum));
    call.done();
  });
  // Runs until the host gets the request to end it. It reports a second request.
  add_function("until cancelled", [](Call call) {
    while (cancels_of(call.id()) == 0) ::poll(nullptr, 0, 1);
    call.fail(failure(call.cancelled() ? "cancelled" : "no flag"));
  });
  add_function("hooks", [](Call call) {
    const HookCounts& counts = hook_counts();
    give_text(call, "before " + std::to_string(counts.before_fork) + " parent " +
                        std::to_string(counts.in_parent) + " child " +
                        std::to_string(counts.in_child) + " assigned " +
                        std::to_string(counts.assigned) + " slot " +
                        (counts.slot_at_assignment.empty() ? "unknown" : "known"));
    call.done();
  });
  add_function("getenv", [](Call call) {
    const char* value = std::getenv(text_of(call.arguments()[0]).c_str());
    give_text(call, value == nullptr ? "" : value);
    call.done();
  });
  const auto caller = [](Call call) {
    const Caller caller = call.caller();
    give_text(call, std::string(caller.language) + " in " + std::string(caller.program) +
                        (caller.by_program ? " by program" : ""));
    call.done();
  };
  add_function("caller", caller);
  add_function("Counter.caller", caller);
  add_function("log", [](Call call) {
    std::fprintf(stderr, "a line of the host\n");
    give_text(call, "");
    call.done();
  });
  add_function("Counter", [](Call call) {
    auto counter = std::make_shared<Counter>();
    if (!call.arguments().empty()) counter->count = std::stoi(text_of(call.arguments()[0]));
    if (counter->count < 0) return call.fail(failure("a negative count"));
    call.created(std::move(counter));
    call.done();
  });
  add_function("Counter.add", [](Call call) {
    auto& counter = *static_cast<Counter*>(call.self());
    give_text(call, std::to_string(++counter.count));
    call.done();
  });
  // Appends its argument to a file. An entry that begins with "die" ends the process after that.
  add_function("Ledger", [](Call call) {
    call.created(std::make_shared<std::string>(text_of(call.arguments()[0])));
    call.done();
  });
  add_function("Ledger.enter", [](Call call) {
    const std::string entry = text_of(call.arguments()[0]);
    std::ofstream(*static_cast<std::string*>(call.self()), std::ios::app) << entry + "\n";
    if (entry.starts_with("die")) ::raise(SIGKILL);
    give_text(call, entry);
    call.done();
  });
  // Stores all results, which are large, until it is cancelled.
  static std::atomic<int> gives = 0;
  add_function("Counter.give large", [](Call call) {
    for (int i = 0; i < call.returns().count; ++i) {
      ++gives;
      if (cancels_of(call.id()) > 0) return call.fail(failure("cancelled"));
      call.give(static_cast<std::size_t>(i), Text(std::string(100'000, 'x')).value());
    }
    call.done();
  });
  add_function("Counter.gives", [](Call call) {
    give_text(call, std::to_string(gives));
    call.done();
  });
  add_function("Counter.exit", [](Call call) { call.exit_actor(); });
  add_function("Counter.describe", [](Call call) {
    const Callable& names = call.callable();
    give_text(call, std::string(names.name) + " of " + std::string(names.class_name) +
                        (names.kind == Kind::method ? " (method)" : ""));
    call.done();
  });
}

void write_farewell() {
  if (const char* path = std::getenv("DYNAMIC_TEST_FAREWELL"))
    std::ofstream(path, std::ios::app) << (::getpid() == ::gettid() ? "main thread\n" : "other\n");
}

}  // namespace

std::string text_of(const StoredPayload& value) {
  const auto parts = value.parts(format);
  return {reinterpret_cast<const char*>(parts.body.data()), parts.body.size()};
}

std::string text_of(const AnyRef& ref) {
  const auto fetched = dynamic::get({&ref, 1}, {.timeout = std::chrono::seconds(30)});
  if (const auto* error = std::get_if<detail::ErrorRecord>(&fetched[0]))
    detail::throw_error(*error);
  return text_of(std::get<StoredPayload>(fetched[0]));
}

detail::ErrorRecord error_of(const AnyRef& ref) {
  const auto fetched = dynamic::get({&ref, 1}, {.timeout = std::chrono::seconds(30)});
  const auto* error = std::get_if<detail::ErrorRecord>(&fetched[0]);
  return error == nullptr ? detail::ErrorRecord{} : *error;
}

Failure failure(std::string message, bool may_retry) {
  Failure failed;
  failed.record.message = std::move(message);
  failed.record.remote_type = "test.Failure";
  failed.may_retry = may_retry;
  return failed;
}

void add_function(const std::string& name, Function function) {
  functions()[name] = std::move(function);
}

HookCounts& hook_counts() {
  static HookCounts counts;
  return counts;
}

Host cpp_host() {
  add_all();
  Host host;
  host.run = [](Call call) {
    const auto function = functions().find(std::string(call.callable().name));
    if (function == functions().end())
      return call.fail(failure("no function " + std::string(call.callable().name)));
    function->second(std::move(call));
  };
  host.cancel = [](CallId call) {
    auto& cancelled = cancelled_calls();
    const std::lock_guard lock(cancelled.mutex);
    cancelled.calls.insert(call);
  };
  host.before_fork = [] { ++hook_counts().before_fork; };
  host.after_fork_in_parent = [] { ++hook_counts().in_parent; };
  host.after_fork_in_child = [] { ++hook_counts().in_child; };
  host.assigned = [] {
    ++hook_counts().assigned;
    hook_counts().slot_at_assignment = current().node_id;
  };
  host.leave = [] { write_farewell(); };
  host.language = "test 1.0";
  return host;
}

}  // namespace mobula::dynamic
