// Measures the time from a report of a trial to its next step, in calls of an actor: with
// `Durability::relaxed`, and with `strict`, less one commit, which is an insert of one row by
// SQLite with the settings of the log of an experiment. Calls, commits, and reports alternate in
// rounds. Prints one line per figure: name, median over the rounds, unit, and the lowest and
// highest round. A ratio is that of one round.
//   mobula-bench-tune-reports DIRECTORY [REPORTS [ROUNDS]]   (default: 1,000 in each of 15 rounds)
#include <fmt/format.h>
#include <mobula/mobula.h>
#include <mobula/tune.h>
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace {

namespace tune = mobula::tune;

struct Server {
  int value() { return 1; }
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The median time of a step in microseconds, after a tenth as many steps to warm up.
double median_us(int count, const std::function<void()>& step) {
  for (int i = 0; i < count / 10 + 1; ++i) step();
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    step();
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  return median(std::move(times));
}

void reporting(const tune::Config& config) {
  const int count = static_cast<int>(config.integer("reports"));
  const double step = median_us(count, [] { tune::report({{"loss", 1}}); });
  tune::report({{"loss", 1}, {"step_us", step}});
}

double report_us(const std::string& directory, int reports, tune::Durability durability) {
  tune::RunOptions options{
      .metric = "loss", .space = {{"reports", tune::constant(reports)}}, .num_samples = 1};
  options.name = durability == tune::Durability::strict ? "strict" : "relaxed";
  options.storage_path = directory;
  options.durability = durability;
  options.verbose = 0;
  std::filesystem::remove_all(directory + "/" + options.name);
  return tune::run<reporting>(options).best().metrics.at("step_us").number();
}

class Commits {
 public:
  explicit Commits(std::string file) : file_(std::move(file)) {
    if (sqlite3_open(file_.c_str(), &database_) != SQLITE_OK) std::abort();
    run("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE row(value REAL)");
  }
  ~Commits() {
    sqlite3_close(database_);
    std::filesystem::remove(file_);
  }
  Commits(const Commits&) = delete;
  Commits& operator=(const Commits&) = delete;

  double us(int count) {
    return median_us(count, [&] { run("INSERT INTO row VALUES(0.5)"); });
  }

 private:
  void run(const char* sql) {
    if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) std::abort();
  }

  const std::string file_;
  sqlite3* database_ = nullptr;
};

void print(const char* name, const char* unit, const std::vector<double>& rounds) {
  const auto [least, most] = std::minmax_element(rounds.begin(), rounds.end());
  fmt::print("{} {:.3f} {} ({:.3f} to {:.3f})\n", name, median(rounds), unit, *least, *most);
}

void measure(const std::string& directory, int reports, int rounds) {
  auto server = mobula::actor<Server>.options({.num_cpus = 0}).remote();
  const auto call = [&] { mobula::get(server.call<&Server::value>()); };
  Commits commits(directory + "/commits");
  std::vector<double> calls, commit_times, relaxed, strict, relaxed_calls, strict_calls;
  for (int round = 0; round <= rounds; ++round) {
    const double before = median_us(reports, call);
    const double relaxed_us = report_us(directory, reports, tune::Durability::relaxed);
    const double after = median_us(reports, call);
    const double commit_us = commits.us(std::min(reports, 100));
    const double strict_us = report_us(directory, std::min(reports, 100), tune::Durability::strict);
    if (round == 0) continue;  // starts processes and fills caches
    const double mean = (before + after) / 2;
    calls.push_back(mean);
    relaxed.push_back(relaxed_us);
    relaxed_calls.push_back(relaxed_us / mean);
    commit_times.push_back(commit_us);
    strict.push_back(strict_us);
    strict_calls.push_back((strict_us - commit_us) / mean);
  }
  print("tune_actor_call", "us", calls);
  print("tune_commit", "us", commit_times);
  print("tune_report_relaxed_us", "us", relaxed);
  print("tune_report_strict_us", "us", strict);
  print("tune_report_relaxed", "calls", relaxed_calls);
  print("tune_report_strict", "calls", strict_calls);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: mobula-bench-tune-reports DIRECTORY [REPORTS [ROUNDS]]\n");
    return 2;
  }
  const int reports = argc > 2 ? std::max(std::atoi(argv[2]), 10) : 1000;
  const int rounds = argc > 3 ? std::max(std::atoi(argv[3]), 1) : 15;
  const auto cluster = mobula::init(argc, argv, {});
  measure(argv[1], reports, rounds);
  return 0;
}
