// Programs whose tasks end before the work that they have submitted.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <new>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Polls for at most 20 s until the condition holds.
template <class Condition>
bool until(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

bool exited(std::int64_t pid) { return ::kill(static_cast<pid_t>(pid), 0) != 0; }

class Logger {
 public:
  int log(int value) {
    std::this_thread::sleep_for(milliseconds(10));
    sum_ += value;
    return ++lines_;
  }
  int lines() const { return lines_; }
  std::int64_t pid() const { return ::getpid(); }

 private:
  int lines_ = 0;
  int sum_ = 0;
};
using LoggerHandle = mobula::ActorHandle<Logger>;

// ---- calls that no process awaits ---------------------------------------------------------------

int log_and_return(LoggerHandle logger, int value) {
  logger.call<&Logger::log>(value);
  return value;
}
int start_log(LoggerHandle logger, int value) {
  mobula::task<log_and_return>.remote(logger, value);
  return value;
}
int start_gpu_log(LoggerHandle logger, int value) {
  mobula::task<log_and_return>.options({.num_gpus = 1}).remote(logger, value);
  return value;
}

int unawaited(const Words& arguments) {
  const std::string& kind = arguments.at(0);
  const int count = std::stoi(arguments.at(1));
  Report report;
  auto logger = mobula::actor<Logger>.options({.num_cpus = 0}).remote();
  std::vector<mobula::ObjectRef<int>> tasks;
  for (int i = 0; i < count; ++i) {
    if (kind == "cpu") tasks.push_back(mobula::task<log_and_return>.remote(logger, i));
    if (kind == "gpu")
      tasks.push_back(mobula::task<log_and_return>.options({.num_gpus = 1}).remote(logger, i));
    if (kind == "once")
      tasks.push_back(mobula::task<log_and_return>.options({.max_calls = 1}).remote(logger, i));
    if (kind == "tasks") tasks.push_back(mobula::task<start_log>.remote(logger, i));
    if (kind == "gpu_tasks")
      tasks.push_back(mobula::task<start_gpu_log>.options({.num_gpus = 1}).remote(logger, i));
  }
  mobula::get(tasks, seconds(60));
  int lines = 0;
  until([&] { return (lines = mobula::get(logger.call<&Logger::lines>(), seconds(30))) == count; });
  tell(std::to_string(lines) + " of " + std::to_string(count) + " calls arrived");
  report.equal("calls that arrived", lines, count);
  return report.exit_code();
}

int make_detached_logger(const std::string& name) {
  auto logger = mobula::actor<Logger>
                    .options({.name = name, .lifetime = mobula::Lifetime::detached, .num_cpus = 0})
                    .remote();
  logger.call<&Logger::log>(1);
  return 0;
}

int detached_first_call(const Words&) {
  Report report;
  mobula::get(
      mobula::task<make_detached_logger>.options({.num_gpus = 1}).remote(std::string("first")),
      seconds(30));
  // The task does not wait for the actor that it makes.
  LoggerHandle logger;
  report.holds("the actor is found", until([&] {
                 try {
                   logger = mobula::get_actor<Logger>("first");
                   return true;
                 } catch (const mobula::NotFoundError&) {
                   return false;
                 }
               }));
  report.holds("the first call of a detached actor arrives",
               until([&] { return mobula::get(logger.call<&Logger::lines>(), seconds(30)) == 1; }));
  mobula::kill(logger);
  return report.exit_code();
}

// An actor whose last handle is dropped while its own calls are running.
class Forwarder {
 public:
  int forward(LoggerHandle logger, int count) {
    for (int i = 0; i < count; ++i) logger.call<&Logger::log>(i);
    return count;
  }
  void forward_and_leave(LoggerHandle logger, int count) {
    forward(logger, count);
    mobula::exit_actor();
  }
};

int dropped_forwarder(const Words&) {
  Report report;
  auto logger = mobula::actor<Logger>.options({.num_cpus = 0}).remote();
  {
    auto forwarder = mobula::actor<Forwarder>.remote();
    mobula::get(forwarder.call<&Forwarder::forward>(logger, 20), seconds(30));
    auto leaves = mobula::actor<Forwarder>.remote();
    leaves.call<&Forwarder::forward_and_leave>(logger, 20);
    mobula::wait(std::vector{leaves.call<&Forwarder::forward>(logger, 0)},
                 {.timeout = seconds(30)});
  }
  int lines = 0;
  until([&] { return (lines = mobula::get(logger.call<&Logger::lines>(), seconds(30))) == 40; });
  report.equal("calls of actors that have ended", lines, 40);
  return report.exit_code();
}

// ---- refs of pending calls, and actors, that a task returns -------------------------------------

struct Pending {
  mobula::ObjectRef<int> value;
  std::int64_t pid = 0;
};
struct Made {
  LoggerHandle logger;
  std::int64_t pid = 0;
};

Pending pending_call(LoggerHandle logger) {
  for (int i = 0; i < 20; ++i) logger.call<&Logger::log>(1);
  return {logger.call<&Logger::log>(1), ::getpid()};
}

int returned_call(const Words&) {
  Report report;
  auto logger = mobula::actor<Logger>.options({.num_cpus = 0}).remote();
  auto pending =
      mobula::get(mobula::task<pending_call>.options({.max_calls = 1}).remote(logger), seconds(30));
  report.equal("value of a call that was pending", mobula::get(pending.value, seconds(30)), 21);
  report.holds("its executor has exited", until([&] { return exited(pending.pid); }));
  report.equal("value after its caller has exited", mobula::get(pending.value, seconds(30)), 21);
  return report.exit_code();
}

Made make_logger(const std::string& name) {
  auto logger = mobula::actor<Logger>.options({.name = name, .num_cpus = 0}).remote();
  logger.call<&Logger::log>(5);
  return {logger, ::getpid()};
}

int factory(const Words&) {
  Report report;
  for (const std::string name : {"", "by name"}) {
    std::int64_t actor = 0;
    {
      auto made = mobula::get(mobula::task<make_logger>.options({.max_calls = 1}).remote(name),
                              seconds(30));
      report.holds("the executor that made it has exited", until([&] { return exited(made.pid); }));
      report.equal("calls so far", mobula::get(made.logger.call<&Logger::lines>(), seconds(30)), 1);
      if (!name.empty()) {
        report.equal(
            "calls by its name",
            mobula::get(mobula::get_actor<Logger>(name).call<&Logger::lines>(), seconds(30)), 1);
      }
      actor = mobula::get(made.logger.call<&Logger::pid>(), seconds(30));
      // A second holder takes over, and the first one exits.
      auto kept = made.logger;
      made.logger = {};
      report.equal("calls so far", mobula::get(kept.call<&Logger::lines>(), seconds(30)), 1);
    }
    report.holds("it ends with its last handle", until([&] { return exited(actor); }));
  }
  return report.exit_code();
}

// ---- bounds -------------------------------------------------------------------------------------

class Stuck {
 public:
  std::string stay(const std::string& pipe) { return hold(pipe); }
};

int start_stuck(mobula::ActorHandle<Stuck> stuck, const std::string& pipe) {
  stuck.call<&Stuck::stay>(pipe);
  return 0;
}

// A task on the given node submits a call that runs until the pipe is written.
int stuck_call(const Words& arguments) {
  auto stuck = mobula::actor<Stuck>  //
                   .options({.num_cpus = 0, .scheduling = mobula::NodeAffinity{arguments.at(0)}})
                   .remote();
  mobula::get(mobula::task<start_stuck>
                  .options({.scheduling = mobula::NodeAffinity{arguments.at(1)}, .max_calls = 1})
                  .remote(stuck, arguments.at(2)),
              seconds(30));
  tell("submitted");
  hear();
  return 0;
}

// ---- names, kill, resources ---------------------------------------------------------------------

int use_shared(int value) {
  auto shared = mobula::actor<Logger>  //
                    .options({.name = "shared", .get_if_exists = true, .num_cpus = 0})
                    .remote();
  return mobula::get(shared.call<&Logger::log>(value), seconds(30)) > 0 ? 1 : 0;
}

// Tasks that get or create an actor, call it, and drop it.
int shared_by_name(const Words& arguments) {
  const int count = std::stoi(arguments.at(0));
  Report report;
  std::vector<mobula::ObjectRef<int>> tasks;
  for (int i = 0; i < count; ++i)
    tasks.push_back(mobula::task<use_shared>.options({.max_retries = 0}).remote(i));
  int done = 0;
  std::string error;
  for (auto& task : tasks) {
    const auto result = mobula::try_get(task, seconds(60));
    if (result.has_value()) ++done;
    if (!result.has_value()) error = result.error().what();
  }
  tell(std::to_string(done) + " of " + std::to_string(count) + " tasks succeeded" +
       (error.empty() ? "" : "; " + error));
  report.equal("tasks that succeeded", done, count);
  return report.exit_code();
}

int killed(const Words& arguments) {
  const int count = std::stoi(arguments.at(0));
  Report report;
  int values = 0;
  for (int i = 0; i < count; ++i) {
    auto counter = mobula::actor<Counter>.options({.num_cpus = 0}).remote();
    mobula::get(counter.call<&Counter::add>(1), seconds(30));
    mobula::kill(counter);
    if (mobula::try_get(counter.call<&Counter::add>(1), seconds(30)).has_value()) ++values;
  }
  report.equal("values of calls that were made after kill", values, 0);
  return report.exit_code();
}

// An actor that needs all CPUs is called and dropped. Another actor replaces it.
int released(const Words& arguments) {
  const int count = std::stoi(arguments.at(0));
  Report report;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    auto counter = mobula::actor<Counter>.options({.num_cpus = 4}).remote();
    report.equal("first call", mobula::get(counter.call<&Counter::add>(1), seconds(30)), 1);
  }
  const auto took =
      std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
  tell(std::to_string(count) + " actors, one after the other, in " + std::to_string(took.count()) +
       " ms");
  report.holds("none waits for the acknowledgement of a caller that is gone",
               took < milliseconds(900) * count);
  return report.exit_code();
}

class Leaver {
 public:
  int value() const { return 1; }
  void leave() { mobula::exit_actor(); }
};
bool finds_leaver() {
  try {
    (void)mobula::get_actor<Leaver>("leaver");
    return true;
  } catch (const mobula::NotFoundError&) {
    return false;
  }
}

// Actors of one name, each of which calls exit_actor. The result of that call frees the name.
int names_after_exit(const Words& arguments) {
  const int count = std::stoi(arguments.at(0));
  Report report;
  int found = 0, listed = 0, taken = 0;
  for (int i = 0; i < count; ++i) {
    auto leaver = mobula::actor<Leaver>.options({.name = "leaver", .num_cpus = 0}).remote();
    if (!mobula::try_get(leaver.call<&Leaver::value>(), seconds(30)).has_value()) ++taken;
    const auto left = mobula::try_get(leaver.call<&Leaver::leave>(), seconds(30));
    report.holds("the call of exit_actor has no result", !left.has_value());
    if (finds_leaver()) ++found;
    listed += static_cast<int>(mobula::list_named_actors().size());
    if (i % 8 == 0 && mobula::get(mobula::task<finds_leaver>.remote(), seconds(30))) ++found;
  }
  tell(std::to_string(found) + " found, " + std::to_string(listed) + " listed, " +
       std::to_string(taken) + " names taken, of " + std::to_string(count));
  report.equal("actors found after exit_actor", found, 0);
  report.equal("actors listed after exit_actor", listed, 0);
  report.equal("names taken after exit_actor", taken, 0);
  return report.exit_code();
}

// ---- exit handlers ----------------------------------------------------------------------------

mobula::ObjectRef<int> kept_ref;  // destroyed with the static objects of its executor

class Exiting {
 public:
  Exiting(const std::string& kind, const std::string& file) {
    exit_file = file;
    kept_ref = mobula::put(1);
    if (kind == "calls") std::atexit(&call);
    if (kind == "throws")
      std::atexit([] { throw std::runtime_error("flush of the cache failed"); });
    if (kind == "blocks") std::atexit([] { ::pause(); });
  }
  std::int64_t pid() const { return ::getpid(); }

 private:
  static void call() {
    std::ofstream out(exit_file, std::ios::app);
    try {
      (void)mobula::put(2);
      out << "no error\n";
    } catch (const mobula::NotInitializedError& error) {
      out << error.what() << "\n";
    }
    try {
      (void)mobula::get(kept_ref);
      out << "no error\n";
    } catch (const mobula::NotInitializedError&) {
      out << "refused\n";
    }
  }
  inline static std::string exit_file;
};

int exit_handlers(const Words& arguments) {
  Report report;
  std::vector<std::int64_t> pids;
  for (const std::string kind : {"calls", "throws", "blocks"}) {
    auto exiting = mobula::actor<Exiting>.remote(kind, arguments.at(0));
    pids.push_back(mobula::get(exiting.call<&Exiting::pid>(), seconds(30)));
  }
  for (const auto pid : pids)
    report.holds("the executor exits", until([&] { return exited(pid); }));
  return report.exit_code();
}

// ---- destructors --------------------------------------------------------------------------------

std::string exit_file;
struct AtExit {
  ~AtExit() {
    if (!exit_file.empty()) std::ofstream(exit_file, std::ios::app) << "static\n";
  }
};
AtExit at_exit_object;

class Writer {
 public:
  explicit Writer(const std::string& file) : out_(file, std::ios::app) {
    exit_file = file;
    std::atexit([] { std::ofstream(exit_file, std::ios::app) << "atexit\n"; });
  }
  ~Writer() { out_ << "destroyed" << std::endl; }
  int write(int value) {
    out_ << value << "\n";  // stays in the buffer
    return value;
  }
  void leave() { mobula::exit_actor(); }

 private:
  std::ofstream out_;
};

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

int destructors(const Words& arguments) {
  const std::string& directory = arguments.at(0);
  Report report;
  const std::string whole = "1\ndestroyed\natexit\nstatic\n";
  {
    auto dropped = mobula::actor<Writer>.remote(directory + "/dropped");
    mobula::get(dropped.call<&Writer::write>(1), seconds(30));
  }
  report.holds("a dropped actor is destroyed",
               until([&] { return text_of(directory + "/dropped") == whole; }));
  auto leaves = mobula::actor<Writer>.remote(directory + "/leaves");
  mobula::get(leaves.call<&Writer::write>(1), seconds(30));
  mobula::wait(std::vector{leaves.call<&Writer::leave>()}, {.timeout = seconds(30)});
  report.holds("an actor that leaves is destroyed",
               until([&] { return text_of(directory + "/leaves") == whole; }));
  auto dies = mobula::actor<Writer>.remote(directory + "/killed");
  mobula::get(dies.call<&Writer::write>(1), seconds(30));
  mobula::kill(dies);
  static auto stays = mobula::actor<Writer>.remote(directory + "/stays");
  mobula::get(stays.call<&Writer::write>(1), seconds(30));
  return report.exit_code();
}

// An actor on the node, with lines in its buffer, until the test ends this program.
int writes_on(const Words& arguments) {
  auto writer = mobula::actor<Writer>
                    .options({.num_cpus = 0, .scheduling = mobula::NodeAffinity{arguments.at(0)}})
                    .remote(arguments.at(1));
  mobula::get(writer.call<&Writer::write>(1), seconds(30));
  tell("written");
  hear();
  return 0;
}

// ---- forks --------------------------------------------------------------------------------------

int forks(const Words& arguments) {
  Report report;
  auto counter = mobula::actor<Counter>.options({.num_cpus = 0}).remote();
  report.equal("call before the fork", mobula::get(counter.call<&Counter::add>(1), seconds(30)), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    int refused = 0;
    try {
      counter.call<&Counter::add>(1);
    } catch (const mobula::NotInitializedError& error) {
      if (std::string(error.what()).find("forked child") != std::string::npos) ++refused;
    }
    try {
      (void)mobula::put(1);
    } catch (const mobula::NotInitializedError&) {
      ++refused;
    }
    counter = {};
    if (arguments.size() > 0) {  // outlives its parent
      ::close(0);
      for (int fd : {1, 2}) ::close(fd);
      ::pause();
    }
    std::exit(refused == 2 ? 0 : 1);
  }
  if (arguments.size() > 0) {
    tell("child " + std::to_string(child) + ";");
    hear();
    return 0;
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  report.equal("status of the child", status, 0);
  report.equal("call after the fork", mobula::get(counter.call<&Counter::add>(1), seconds(30)), 2);
  return report.exit_code();
}

// Exits with the code, or by the signal, after the job has ended. Arguments: a code, a signal.
int exits_after_job(const Words& arguments) {
  static int signal = 0;
  if (arguments.size() > 1) signal = std::stoi(arguments.at(1));
  std::atexit([] {
    if (signal != 0) std::raise(signal);
  });
  return std::stoi(arguments.at(0));
}

// ---- broken rings -------------------------------------------------------------------------------

// The shared memory of the rings of this process, by inode.
std::map<std::string, char*> rings() {
  std::map<std::string, char*> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:mobula-ring ") == std::string::npos) continue;
    std::istringstream words(line);
    std::string range, access, offset, device, inode;
    words >> range >> access >> offset >> device >> inode;
    found[inode] = reinterpret_cast<char*>(std::stoull(range, nullptr, 16));
  }
  return found;
}

// Corrupts the ring to an actor while calls are in flight: the counts of its writer or reader, or
// its data, in both directions. A ring has two counts in a header of 192 bytes, and 64 KiB of data.
int broken_rings(const Words&) {
  constexpr std::size_t header = 192, capacity = 64 << 10;
  Report report;
  for (int kind = 0; kind < 6; ++kind) {
    const auto before = rings();
    auto counter = mobula::actor<Counter>.options({.num_cpus = 0}).remote();
    report.equal("first call", mobula::get(counter.call<&Counter::add>(1), seconds(30)), 1);
    char* ring = nullptr;
    for (const auto& [inode, memory] : rings()) {
      if (!before.contains(inode)) ring = memory;
    }
    if (ring == nullptr) {
      report.fail("no ring leads to the actor");
      break;
    }
    if (kind % 2 == 1) ring += header + capacity;  // replies
    std::vector<mobula::ObjectRef<int>> sums;
    for (int i = 0; i < 400; ++i) {
      sums.push_back(counter.call<&Counter::add>(1));
      if (i != 100) continue;
      if (kind < 2) new (ring) std::atomic<std::uint64_t>(std::uint64_t{1} << 60);
      if (kind == 2 || kind == 3)
        new (ring + 64) std::atomic<std::uint64_t>(std::uint64_t{1} << 60);
      if (kind > 3) std::fill_n(ring + header, capacity, '\xff');
    }
    int differences = 0;
    for (int i = 0; i < 400; ++i) {
      const auto sum = mobula::try_get(sums[static_cast<std::size_t>(i)], seconds(30));
      if (!sum.has_value() || sum.value() != i + 2) ++differences;
    }
    report.equal(("sums that differ, kind " + std::to_string(kind)).c_str(), differences, 0);
    report.equal("last call", mobula::get(counter.call<&Counter::add>(1), seconds(30)), 402);
  }
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> end_scenarios() {
  return {{"exits", &exits_after_job},
          {"names_after_exit", &names_after_exit},
          {"exit_handlers", &exit_handlers},
          {"broken_rings", &broken_rings},
          {"shared_by_name", &shared_by_name},
          {"killed", &killed},
          {"released", &released},
          {"destructors", &destructors},
          {"writes_on", &writes_on},
          {"forks", &forks},
          {"unawaited", &unawaited},
          {"detached_first_call", &detached_first_call},
          {"dropped_forwarder", &dropped_forwarder},
          {"returned_call", &returned_call},
          {"factory", &factory},
          {"stuck_call", &stuck_call}};
}

}  // namespace mobula::e2e
