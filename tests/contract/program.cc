// The driver of commands_test.py: reports what it sees of mobula::init, one `name: value` per line.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

#include <mobula/mobula.h>

namespace {

template <class E>
std::string thrown_by(void (*call)()) {
  try {
    call();
    return "nothing";
  } catch (const E&) {
    return "expected";
  } catch (const std::exception& error) {
    return std::string("other: ") + error.what();
  }
}

void report(const std::string& name, const std::string& value) {
  std::cout << name << ": " << value << std::endl;
}

std::string words_of(int argc, char** argv) {
  std::string words;
  for (int i = 1; i < argc; ++i) words += (i > 1 ? " " : "") + std::string(argv[i]);
  return words;
}

// Lives in main before init. Executors never return from init.
struct Witness {
  ~Witness() { report("witness", "destroyed"); }
};

int slow(int x) {
  ::usleep(20'000);
  return x;
}

int fails(int x) { throw std::runtime_error("bad input " + std::to_string(x)); }

// Waits for the failure and never reads it.
int leaves_failure_unread() {
  const auto ref = mobula::task<fails>.options({.name = "inner"}).remote(2);
  return static_cast<int>(mobula::wait({ref}, {.timeout = std::chrono::seconds(60)}).ready.size());
}

void report_failures() {
  const auto outer = mobula::task<fails>.options({.name = "outer", .max_retries = 0}).remote(1);
  const auto result = mobula::try_get(outer, std::chrono::seconds(60));
  report("outer", result.has_value() ? "no error" : outer.id());
  const auto unread = mobula::task<leaves_failure_unread>.options({.max_calls = 1}).remote();
  report("unread", std::to_string(mobula::get(unread)));
}

// SIGINT ends a blocked init, which can then be repeated. Reads a line before the second one.
int join_twice(const mobula::InitOptions& options) {
  struct sigaction action {};
  action.sa_handler = [](int) { mobula::interrupt_waits(); };
  ::sigaction(SIGINT, &action, nullptr);
  (void)mobula::take_interrupt();
  report("init", "begins");
  try {
    const auto cluster = mobula::init(options);
    report("first", "joined");
    return 1;
  } catch (const mobula::InterruptedError& error) {
    report("first", error.what());
  } catch (const mobula::Error& error) {
    report("first", std::string("other: ") + error.what());
    return 1;
  }
  std::string line;
  std::getline(std::cin, line);
  if (line != "again") return 0;
  const auto cluster = mobula::init(options);
  report("second", std::to_string(mobula::get(mobula::task<slow>.remote(4))));
  return 0;
}

void report_cluster(mobula::Cluster& cluster) {
  report("own", cluster.is_own() ? "yes" : "no");
  report("address", cluster.address());
  const auto total = mobula::cluster_resources();
  for (const char* name : {"CPU", "GPU", "shuttle", "memory"}) {
    const auto at = total.find(name);
    report(name, at == total.end() ? "none" : std::to_string(static_cast<long long>(at->second)));
  }
  report("nodes", std::to_string(mobula::nodes().size()));
  report("zone", mobula::nodes().empty() || !mobula::nodes()[0].labels.contains("zone")
                     ? ""
                     : mobula::nodes()[0].labels.at("zone"));
  report("name space", mobula::current().name_space);
}

}  // namespace

int main(int argc, char** argv) {
  const Witness witness;
  const bool early = !mobula::in_executor();
  const std::string before =
      early ? thrown_by<mobula::NotInitializedError>([] { (void)mobula::put(1); }) : "";
  mobula::InitOptions options;
  if (std::getenv("CONTRACT_NUM_CPUS") != nullptr)
    options.num_cpus = std::stoi(std::getenv("CONTRACT_NUM_CPUS"));
  if (std::getenv("CONTRACT_ADDRESS_FIELD") != nullptr)
    options.address = std::getenv("CONTRACT_ADDRESS_FIELD");
  const bool twice = early && argc > 1 && std::string(argv[1]) == "twice";
  std::string refused;
  try {
    if (twice) return join_twice(options);
    auto cluster = mobula::init(argc, argv, options);
    report("before", before);
    report("words", words_of(argc, argv));
    report_cluster(cluster);
    if (std::string(argc > 1 ? argv[1] : "") == "waits") {
      const auto never = mobula::task<slow>.options({.name = "never", .num_gpus = 64}).remote(1);
      const auto done = mobula::task<slow>.remote(1);
      report("done", std::to_string(mobula::get(done)));
      report("task", never.id());
      std::string line;
      std::getline(std::cin, line);
      return 0;
    }
    if (std::string(argc > 1 ? argv[1] : "") == "fails") report_failures();
    if (std::string(argc > 1 ? argv[1] : "") == "exits") std::_Exit(5);
    cluster.shutdown();
    report("after", thrown_by<mobula::NotInitializedError>([] { (void)mobula::put(1); }));
  } catch (const mobula::InvalidRequestError& error) {
    report("refused", error.field());
    report("why", error.what());
    return 5;
  } catch (const mobula::Error& error) {
    report("failed", error.what());
    return 6;
  }
  if (std::string(argc > 1 ? argv[1] : "") != "again") return 0;
  auto again = mobula::init();
  report("again", mobula::get(mobula::task<slow>.remote(3)) == 3 ? "runs" : "fails");
  return 0;
}
