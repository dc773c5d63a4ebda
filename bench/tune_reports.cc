// Measures the time from a report of a trial to its next step, in calls of an actor: with
// `Durability::relaxed`, and with `strict`, from which the time of one commit is subtracted. The
// log of an experiment commits by one synchronized write. Prints one line per figure: name, value,
// unit.
//   mobula-bench-tune-reports DIRECTORY [REPORTS]   (default: 1,000)
#include <fcntl.h>
#include <fmt/format.h>
#include <mobula/mobula.h>
#include <mobula/tune.h>
#include <unistd.h>

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

// The median time of a step in microseconds.
double median_us(int count, const std::function<void()>& step) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    step();
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  std::nth_element(times.begin(), times.begin() + count / 2, times.end());
  return times[static_cast<std::size_t>(count) / 2];
}

void reporting(const tune::Config& config) {
  const auto report = [] { tune::report({{"loss", 1}}); };
  const int count = static_cast<int>(config.integer("reports"));
  median_us(count / 10, report);
  const double step = median_us(count, report);
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

double call_us(int calls) {
  auto server = mobula::actor<Server>.remote();
  const auto call = [&] { mobula::get(server.call<&Server::value>()); };
  median_us(std::max(calls / 10, 1), call);
  return median_us(calls, call);
}

// A synchronized write of three pages over earlier ones, as a commit of the log in its file.
double commit_us(const std::string& directory, int commits) {
  const std::string file = directory + "/commits";
  const int log = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const std::string pages(3 * 4096, 'x');
  for (int i = 0; i < commits; ++i)
    if (::write(log, pages.data(), pages.size()) < 0) std::abort();
  if (::fsync(log) != 0 || ::lseek(log, 0, SEEK_SET) != 0) std::abort();
  const double median = median_us(commits, [&] {
    if (::write(log, pages.data(), pages.size()) < 0 || ::fdatasync(log) != 0) std::abort();
  });
  ::close(log);
  std::filesystem::remove(file);
  return median;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: mobula-bench-tune-reports DIRECTORY [REPORTS]\n");
    return 2;
  }
  const std::string directory = argv[1];
  const int reports = argc > 2 ? std::max(std::atoi(argv[2]), 10) : 1000;
  const auto cluster = mobula::init(argc, argv, {});
  const double call = call_us(reports);
  const double relaxed = report_us(directory, reports, tune::Durability::relaxed);
  const double commit = commit_us(directory, std::min(reports, 200));
  const double strict = report_us(directory, std::min(reports, 500), tune::Durability::strict);
  const double call_after = call_us(reports);
  const double mean = (call + call_after) / 2;
  fmt::print("tune_actor_call {:.1f} us (before {:.1f}, after {:.1f})\n", mean, call, call_after);
  fmt::print("tune_commit {:.1f} us\n", commit);
  fmt::print("tune_report_relaxed {:.3f} calls ({:.1f} us)\n", relaxed / mean, relaxed);
  fmt::print("tune_report_strict {:.3f} calls ({:.1f} us less one commit)\n",
             (strict - commit) / mean, strict);
  return 0;
}
