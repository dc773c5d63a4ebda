// Checks the options of an experiment, makes its parts, and runs it.
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <utility>

#include <nlohmann/json.hpp>

#include <mobula/cluster.h>
#include <mobula/errors.h>

#include "tune/api/core_values.h"
#include "tune/api/scheduler_recipe.h"
#include "tune/api/search_recipe.h"
#include "tune/runtime/experiment_runner.h"
#include "tune/runtime/trial_files.h"

namespace mobula::internal::tune {
namespace {

constexpr std::int64_t least_early_trials = 200;

template <class T>
T checked(Result<T> result, const char* field) {
  if (!result) refuse_tune(field, result.error().text);
  return std::move(*result);
}

std::string program_name() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "experiment" : path.filename().string();
}

std::string default_name(const std::string& storage) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  const std::string name =
      fmt::format("{}-{:04}{:02}{:02}-{:02}{:02}{:02}-{}", program_name(), utc.tm_year + 1900,
                  utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ::getpid());
  std::error_code error;
  std::string unique = name;
  for (int number = 2; std::filesystem::exists(fmt::format("{}/{}", storage, unique), error);
       ++number)
    unique = fmt::format("{}-{}", name, number);
  return unique;
}

std::uint64_t drawn_seed() {
  std::random_device device;
  const std::uint64_t high = device();
  return (high << 32 | device()) | 1;
}

void check_options(const api::RunOptions& options) {
  if (options.num_samples < 1)
    refuse_tune("RunOptions::num_samples", fmt::format("{}; pass at least 1", options.num_samples));
  if (options.max_concurrent_trials && *options.max_concurrent_trials < 1)
    refuse_tune("RunOptions::max_concurrent_trials",
                fmt::format("{}; pass at least 1", *options.max_concurrent_trials));
  if (options.failure.max_failures < -1)
    refuse_tune("FailureConfig::max_failures",
                fmt::format("{}; pass -1 or more", options.failure.max_failures));
  if (options.checkpoint.num_to_keep && *options.checkpoint.num_to_keep < 1)
    refuse_tune("CheckpointConfig::num_to_keep",
                fmt::format("{}; pass at least 1", *options.checkpoint.num_to_keep));
  if (options.time_budget && !(options.time_budget->count() > 0))
    refuse_tune("RunOptions::time_budget",
                fmt::format("{} s; pass more than 0", options.time_budget->count()));
}

nlohmann::ordered_json json_of(const Value& value) {
  if (value.is_text()) return value.text();
  if (value.is_truth()) return value.truth();
  if (value.is_integer()) return value.integer();
  return value.number();
}

nlohmann::ordered_json json_of(const Domain& domain) {
  nlohmann::ordered_json item;
  constexpr const char* kinds[] = {"uniform", "loguniform", "normal", "integer",     "log_integer",
                                   "choice",  "choice",     "grid",   "sample_from", "constant"};
  item["kind"] = kinds[static_cast<std::size_t>(domain.kind)];
  if (domain.is_integer()) {
    item["low"] = domain.first;
    item["high"] = domain.past - 1;
  } else if (domain.is_range()) {
    item["low"] = domain.low;
    item["high"] = domain.high;
  }
  for (const Value& value : domain.values) item["values"].push_back(json_of(value));
  return item;
}

std::vector<std::string> command_line() {
  std::vector<std::string> words;
  std::ifstream file("/proc/self/cmdline");
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

std::string spec_of(const api::RunOptions& options, const Space& space, const std::string& searcher,
                    const std::string& scheduler) {
  nlohmann::ordered_json spec;
  spec["space"] = nlohmann::ordered_json::object();
  for (const auto& [name, domain] : space) spec["space"][name] = json_of(domain);
  spec["command"] = command_line();
  spec["metric"] = options.metric;
  spec["mode"] = options.mode == api::Mode::max ? "max" : "min";
  spec["scheduler"] = scheduler;
  spec["searcher"] = searcher;
  spec["num_samples"] = options.num_samples;
  return spec.dump();
}

// Passes the metrics of reports to schedulers of users.
class CoreMetrics final : public MetricsSource {
 public:
  void read(const ExperimentCore& core) { core_ = &core; }
  api::Metrics last_metrics(TrialNumber trial) const override {
    return api_metrics(core_->record(trial).last);
  }

 private:
  const ExperimentCore* core_ = nullptr;
};

struct Prepared {
  Space space = {};
  MadeSearch search;
  MadeScheduler scheduler;
  ExperimentSettings settings;
  TrialStopperPtr stopper;
  std::function<Result<GroupShape>(const Config&)> shape_of = {};
};

void prepare_resources(const api::RunOptions& options, Prepared& prepared) {
  if (!options.resources_per_trial.by_config()) {
    const GroupShape shape = shape_of_group(options.resources_per_trial.group());
    if (!prepared.scheduler.changes_resources)
      prepared.settings.shape = shape;
    else
      prepared.shape_of = [shape](const Config&) { return Result<GroupShape>(shape); };
    return;
  }
  prepared.shape_of = [by_config = options.resources_per_trial.by_config()](
                          const Config& config) -> Result<GroupShape> {
    try {
      return shape_of_group(by_config(api_config(config)));
    } catch (const std::exception& error) {
      return failure(ErrorCode::invalid_argument, error.what());
    }
  };
}

Prepared prepare(const api::detail::Trainable& trainable, const api::RunOptions& options,
                 std::uint64_t seed) {
  Prepared prepared;
  prepared.space = core_space(options.space);
  const Mode mode = core_mode(options.mode);
  prepared.scheduler =
      checked(make_scheduler(options.scheduler, {options.metric, mode}), "RunOptions::scheduler");
  if (prepared.scheduler.mutates && options.search_alg)
    refuse_tune("RunOptions::search_alg",
                prepared.scheduler.name + " excludes a searcher; remove one of them");
  if (options.metric.empty() && (prepared.scheduler.needs_metric || options.search_alg))
    refuse_tune("RunOptions::metric", "empty; " + prepared.scheduler.name +
                                          " and the searcher need the name of a metric");
  if (prepared.space.empty() && !prepared.scheduler.mutates)
    refuse_tune("RunOptions::space", "empty; pass at least one parameter");
  if (Result<void> valid = prepared.space.check(); !valid)
    refuse_tune("RunOptions::space", valid.error().text);
  SearchPlan plan{.space = prepared.space,
                  .metric = options.metric,
                  .mode = mode,
                  .num_samples = options.num_samples,
                  .seed = seed};
  for (const api::Config& point : options.points_to_evaluate)
    plan.points_to_evaluate.push_back(core_config(point));
  prepared.search = checked(make_search(options.search_alg, plan), "RunOptions::search_alg");
  const double budget = options.time_budget ? options.time_budget->count() : 0;
  prepared.stopper = checked(make_stopper(options.stop, budget), "RunOptions::stop");

  ExperimentSettings& settings = prepared.settings;
  settings.metric = options.metric;
  settings.time_attr = prepared.scheduler.time_attr;
  settings.seed = seed;
  settings.num_trials = prepared.search.num_trials;
  settings.max_concurrent = options.max_concurrent_trials.value_or(0);
  if (const int most = prepared.search.max_concurrent; most > 0)
    settings.max_concurrent =
        settings.max_concurrent == 0 ? most : std::min<std::int64_t>(settings.max_concurrent, most);
  settings.saves_on_request = trainable.is_class;
  settings.max_failures = options.failure.max_failures;
  settings.stop_on_failure = options.failure.fail_fast != api::FailureConfig::FailFast::no;
  settings.checkpoints = {.num_to_keep = options.checkpoint.num_to_keep,
                          .score_attribute = options.checkpoint.score_attribute,
                          .score_order = core_mode(options.checkpoint.score_order)};
  if (prepared.search.expands_grids) {
    const auto resources = cluster_resources();
    const auto cpus = resources.find("CPU");
    settings.early_trials =
        std::max(least_early_trials,
                 cpus == resources.end() ? 0 : static_cast<std::int64_t>(1.1 * cpus->second));
  } else if (prepared.scheduler.needs_population) {
    settings.early_trials = 1;
  }
  prepare_resources(options, prepared);
  return prepared;
}

// The place and the log; sets the seed of an experiment that exists.
struct OpenedLog {
  std::unique_ptr<ExperimentLog> log;
  std::int64_t created_ms = 0;
  std::vector<TimedEvent> events;
};

OpenedLog reopen(const ExperimentPlace& place, std::uint64_t& seed) {
  OpenedLog opened;
  ResumeState stored;
  opened.log = checked(ExperimentLog::resume(place, stored), "RunOptions::resume");
  seed = stored.experiment.seed;
  opened.created_ms = stored.experiment.created_ms;
  for (const StoredEvent& event : stored.events)
    opened.events.push_back(checked(load_event(event.kind, event.body), "RunOptions::resume"));
  return opened;
}

ExperimentPlace place_of(const api::RunOptions& options) {
  ExperimentPlace place{.storage = options.storage_path.empty() ? default_storage()
                                                                : options.storage_path};
  place.name = options.name;
  if (place.name.empty()) {
    const char* resumed = std::getenv("MOBULA_TUNE_RESUME");
    place.name = resumed != nullptr ? resumed : default_name(place.storage);
  }
  if (const auto valid = place.check(); !valid) refuse_tune("RunOptions::name", valid.error().text);
  place.storage = std::filesystem::absolute(place.storage).string();
  return place;
}

// Decides whether an experiment of this name continues.
bool continues(const api::RunOptions& options, const ExperimentPlace& place) {
  const bool exists = std::filesystem::exists(place.file());
  // `mobula tune resume` starts the program again.
  const char* resumed = std::getenv("MOBULA_TUNE_RESUME");
  if (exists && resumed != nullptr && place.name == resumed) return true;
  if (options.resume == api::Resume::required && !exists)
    refuse_tune("RunOptions::resume", "experiment " + place.directory() + " does not exist");
  if (options.resume == api::Resume::no && exists)
    refuse_tune("RunOptions::name", "experiment " + place.directory() +
                                        " exists; pass another name, or Resume::automatic");
  return exists;
}

std::unique_ptr<ExperimentLog> create_log(const api::RunOptions& options,
                                          const ExperimentPlace& place, const Prepared& prepared,
                                          std::int64_t created_ms) {
  const StoredExperiment experiment{
      .name = place.name,
      .created_ms = created_ms,
      .spec = spec_of(options, prepared.space, prepared.search.name, prepared.scheduler.name),
      .seed = prepared.settings.seed,
      .metric = options.metric,
      .mode = core_mode(options.mode)};
  return checked(ExperimentLog::create(place, experiment), "RunOptions::storage_path");
}

bool requests_gpus(const api::RunOptions& options) {
  const auto& bundles = options.resources_per_trial.group().bundles;
  return options.resources_per_trial.by_config() ||
         std::any_of(bundles.begin(), bundles.end(), [](const Resources& bundle) {
           return bundle.contains("gpu") || bundle.contains("GPU");
         });
}

bool reuses_processes(const api::detail::Trainable& trainable, const api::RunOptions& options) {
  switch (options.reuse_actors) {
    case api::ReuseActors::never: return false;
    case api::ReuseActors::always: return true;
    case api::ReuseActors::automatic: return trainable.resets && !requests_gpus(options);
  }
  return false;
}

// Failures of the search and of trials that end `run` with an exception.
void throw_faults(const std::string& search_error, const api::RunOptions& options,
                  const api::ResultGrid& grid) {
  if (!search_error.empty()) {
    if (grid.all().empty()) throw Error("tune: " + search_error);
    fmt::print(stderr, "tune: {}\n", search_error);
  }
  if (options.failure.fail_fast != api::FailureConfig::FailFast::raise) return;
  for (const api::TrialResult& result : grid.all())
    if (!result.error.empty()) throw Error(result.error);
}

api::ResultGrid run_checked(const api::detail::Trainable& trainable,
                            const api::RunOptions& options) {
  check_options(options);
  RunnerParts parts{.place = place_of(options)};
  const ExperimentPlace place = parts.place;
  std::uint64_t seed = options.seed == 0 ? drawn_seed() : options.seed;
  const bool exists = continues(options, place);
  if (exists) {
    OpenedLog opened = reopen(place, seed);
    parts.log = std::move(opened.log);
    parts.replayed = std::move(opened.events);
    parts.created_ms = opened.created_ms;
  }
  Prepared prepared = prepare(trainable, options, seed);
  if (!exists) {
    parts.created_ms = wall_clock_ms();
    parts.log = create_log(options, place, prepared, parts.created_ms);
  }
  if (const auto made = make_directory(place.checkpoints()); !made)
    refuse_tune("RunOptions::storage_path", made.error().text);
  for (const std::string& warning : prepared.search.warnings)
    fmt::print(stderr, "tune: {}\n", warning);
  CoreMetrics metrics;
  if (auto* reader = dynamic_cast<MetricsReader*>(prepared.scheduler.rule.get()))
    reader->read_from(metrics);
  parts.core = std::make_unique<ExperimentCore>(
      prepared.settings, ExperimentParts{.searcher = std::move(prepared.search.algorithm),
                                         .scheduler = std::move(prepared.scheduler.rule),
                                         .budgets = prepared.scheduler.budgets,
                                         .stopper = std::move(prepared.stopper),
                                         .shape_of = prepared.shape_of});
  parts.reuses_processes = reuses_processes(trainable, options);
  parts.searcher = prepared.search.name;
  parts.scheduler = prepared.scheduler.name;
  const ExperimentCore& core = *parts.core;
  metrics.read(core);
  ExperimentRunner runner(trainable, options, std::move(parts));
  api::ResultGrid grid = runner.run();
  throw_faults(core.search_error(), options, grid);
  return grid;
}

}  // namespace
}  // namespace mobula::internal::tune

namespace mobula::tune::detail {

ResultGrid run_experiment(const Trainable& trainable, const RunOptions& options) {
  return internal::tune::run_checked(trainable, options);
}

}  // namespace mobula::tune::detail
