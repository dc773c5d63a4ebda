// Measures experiments through the real core and its log, without a cluster: the memory of the
// driver per trial, the size of the file, and the time and memory of a resume. Prints one line per
// figure: name, value, unit.
//   mobula-bench-tune-resume DIRECTORY [TRIALS] [REPORTS] [random|tpe] [EVENTS]
// (default: 100,000 trials, 10 reports, random; EVENTS 'all' writes no snapshots). The driver
// ends 9,000 events after a snapshot, and another process resumes.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "tune/core/schedulers/successive_halving.h"
#include "tune/core/searchers/tpe/parzen_search.h"
#include "tune/core/searchers/variant_search.h"
#include "tune/runtime/experiment/experiment_recorder.h"

namespace {

using namespace mobula::internal::tune;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

template <class T>
T checked(mobula::internal::Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "{}\n", result.error().text);
  std::exit(1);
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double total = 0;
  double resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

struct Shape {
  std::string directory = {};
  std::int64_t trials = 100'000;
  std::int64_t reports = 10;
  std::string searcher = "random";
  bool has_snapshots = true;

  ExperimentLocation location() const { return {directory, "bench-resume"}; }
};

std::unique_ptr<ExperimentCore> make_core(const Shape& shape) {
  ExperimentSettings settings{.metric = "loss", .seed = 1, .num_trials = shape.trials};
  settings.early_trials = shape.searcher == "random" ? 200 : 0;
  settings.max_concurrent = 16;
  settings.shape = GroupShape{.bundles = {{{"CPU", 10000}}}};
  Space space;
  for (const char* name : {"lr", "momentum", "dropout", "width", "decay"})
    space.add(name, uniform(0, 1));
  ExperimentParts parts;
  if (shape.searcher == "tpe")
    parts.searcher = checked(ParzenSearch::make({}, checked(SearchSpace::make(space))));
  else
    parts.searcher = checked(VariantSearch::make(space, {.num_samples = shape.trials}, 1));
  // Each trial has all its reports, and is recorded at the last one.
  const auto last = static_cast<double>(shape.reports);
  parts.scheduler = checked(make_successive_halving({.max_t = 100 * last, .grace_period = last}));
  parts.stopper = make_combined_stopper({});
  return std::make_unique<ExperimentCore>(std::move(settings), std::move(parts));
}

std::uint64_t fingerprint(const ExperimentCore& core) {
  const auto saved = core.save();
  return saved ? mobula::internal::fnv1a(saved->searcher, mobula::internal::fnv1a(saved->core)) : 0;
}

// A cluster of 16 slots whose trials report in turns.
class Driver {
 public:
  Driver(ExperimentRecorder& recorder, ExperimentLog& log, const Shape& shape)
      : recorder_(recorder), log_(log), shape_(shape) {}

  void feed(const ExperimentEvent& event) {
    std::vector<ExperimentCommand> commands;
    recorder_.step(static_cast<double>(++events_) * 1e-3, event, commands);
    log_.seal();
    for (const ExperimentCommand& command : commands) carry_out(command);
    while (log_.waiting_bytes() > (8u << 20)) std::this_thread::yield();
  }

  // Ends 9,000 events after a multiple of 10,000, close to the end of the experiment.
  void play() {
    const std::int64_t events = shape_.trials * (shape_.reports + 1);
    const std::int64_t last = events < 20'000 ? events - 50 : events / 10'000 * 10'000 - 1'000;
    feed(ExperimentStarted{});
    while (events_ < last / 2 && act()) {
    }
    half_bytes_ = resident_bytes();
    while (events_ < last && act()) {
    }
  }
  std::int64_t events() const { return events_; }
  double half_bytes() const { return half_bytes_; }

 private:
  struct Process {
    TrialNumber trial = 0;
    std::int64_t attempt = 0, step = 0;
    double x = 0;
    bool ends = false;
  };

  bool act() {
    if (!requested_.empty()) {
      const GroupNumber group = requested_.front();
      requested_.pop_front();
      feed(GroupReady{group});
      return true;
    }
    if (processes_.empty()) return false;
    auto next = processes_.upper_bound(turn_);
    if (next == processes_.end()) next = processes_.begin();
    turn_ = next->first;
    Process& process = next->second;
    if (process.ends) {
      processes_.erase(next);
      feed(GroupReleased{turn_});
    } else if (process.step == shape_.reports) {
      process.ends = true;
      feed(TrialExited{process.trial, process.attempt, TrialExitKind::returned, ""});
    } else {
      ++process.step;
      TrialReported report{.trial = process.trial, .attempt = process.attempt};
      report.metrics.set("loss", process.x / static_cast<double>(process.step));
      report.metrics.set("time_total_s", 1e-3 * static_cast<double>(process.step));
      report.metrics.set("training_iteration", process.step);
      feed(report);
    }
    return true;
  }

  void carry_out(const ExperimentCommand& command) {
    if (const auto* made = std::get_if<MakeGroup>(&command)) {
      requested_.push_back(made->group);
    } else if (const auto* started = std::get_if<StartTrial>(&command)) {
      processes_[started->group] = {.trial = started->trial,
                                    .attempt = started->attempt,
                                    .x = started->config.get("lr").number()};
      recorder_.set_node(started->trial, "node-1");
    } else if (const auto* over = std::get_if<EndTrial>(&command)) {
      for (auto& [group, process] : processes_)
        if (process.trial == over->trial) process.ends = true;
    }
  }

  ExperimentRecorder& recorder_;
  ExperimentLog& log_;
  const Shape shape_;
  std::int64_t events_ = 0;
  double half_bytes_ = 0;  // resident memory after half of the events
  std::deque<GroupNumber> requested_;
  std::map<GroupNumber, Process> processes_;
  GroupNumber turn_ = 0;
};

void write(const Shape& shape) {
  const auto location = shape.location();
  const auto begin = Clock::now();
  const auto core = make_core(shape);
  const StoredExperiment experiment{
      .name = location.name, .spec = "{}", .seed = 1, .metric = "loss"};
  const auto log =
      checked(ExperimentLog::create(location, experiment, {.keep_events = !shape.has_snapshots}));
  SnapshotRule rule;
  if (!shape.has_snapshots) rule.events = INT64_MAX;
  if (!shape.has_snapshots) rule.busy = std::chrono::hours(1);
  ExperimentRecorder recorder(*core, *log, 0, rule);
  Driver driver(recorder, *log, shape);
  driver.play();
  log->flush();
  const double grown = resident_bytes() - driver.half_bytes();
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  fmt::print("tune_core_write {:.0f} ms\n", ms_since(begin));
  fmt::print("tune_core_events {} events\n", driver.events());
  fmt::print("tune_core_memory_per_trial {:.0f} bytes\n",
             2 * grown / static_cast<double>(core->trials().size()));
  fmt::print("tune_core_memory {:.1f} MiB\n", resident_bytes() / (1 << 20));
  fmt::print("tune_core_peak_memory {:.1f} MiB\n", static_cast<double>(use.ru_maxrss) / 1024);
  fmt::print("tune_core_file {:.1f} MB\n",
             static_cast<double>(std::filesystem::file_size(location.file())) / 1e6);
  fmt::print("tune_core_state_before {} fingerprint\n", fingerprint(*core));
  std::fflush(stdout);
  ::_exit(0);  // as after SIGKILL: nothing is closed
}

void resume(const Shape& shape) {
  const auto begin = Clock::now();
  ResumeState stored;
  const auto log = checked(ExperimentLog::resume(shape.location(), stored));
  const double opened = ms_since(begin);
  const auto core = make_core(shape);
  ExperimentRecorder recorder(*core, *log, 0);
  const auto replayed = checked(recorder.restore(stored.snapshots));
  fmt::print("tune_core_resume {:.0f} ms\n", ms_since(begin));
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  fmt::print("tune_core_resume_open {:.0f} ms\n", opened);
  fmt::print("tune_core_resume_replayed {} events\n", replayed.compared());
  fmt::print("tune_core_resume_differing {} events\n", replayed.differing());
  fmt::print("tune_core_resume_peak_memory {:.1f} MiB\n",
             static_cast<double>(use.ru_maxrss) / 1024);
  fmt::print("tune_core_state_after {} fingerprint\n", fingerprint(*core));
}

template <class Body>
void in_process(const Body& body) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    std::fflush(stdout);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr,
               "usage: mobula-bench-tune-resume DIRECTORY [TRIALS] [REPORTS] "
               "[random|tpe] [EVENTS]\n");
    return 2;
  }
  Shape shape{.directory = argv[1]};
  if (argc > 2) shape.trials = std::atoll(argv[2]);
  if (argc > 3) shape.reports = std::atoll(argv[3]);
  if (argc > 4) shape.searcher = argv[4];
  if (argc > 5) shape.has_snapshots = std::string(argv[5]) != "all";
  std::filesystem::remove_all(shape.location().directory());
  in_process([&] { write(shape); });
  in_process([&] { resume(shape); });
  std::filesystem::remove_all(shape.location().directory());
}
