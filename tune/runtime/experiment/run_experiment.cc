// Checks the options of an experiment, makes its parts, and runs it.
#include <cxxabi.h>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include <mobula/cluster.h>
#include <mobula/errors.h>

#include "base/logging/stderr_queue.h"
#include "base/model/accelerator_vendor.h"
#include "base/text/json_writer.h"
#include "tune/api/core_values.h"
#include "tune/api/scheduler_recipe.h"
#include "tune/api/search_recipe.h"
#include "tune/core/experiment/decision_record.h"
#include "tune/runtime/experiment/experiment_runner.h"
#include "tune/runtime/experiment/spec_difference.h"
#include "tune/runtime/trial/trial_command_line.h"
#include "tune/runtime/trial/trial_files.h"
#include "tune/store/experiment_reader.h"

namespace mobula::internal::tune {
namespace {

constexpr std::int64_t least_early_trials = 200;

void checked(const Result<void>& result, const char* field) {
  if (!result) refuse_tune(field, result.error().text);
}

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
  for (std::size_t i = 0; i < options.callbacks.size(); ++i)
    if (options.callbacks[i] == nullptr)
      refuse_tune("RunOptions::callbacks", fmt::format("callback {} is null; remove it", i));
  for (const auto& [name, value] : options.env)
    if (is_accelerator_variable(name))
      refuse_tune("RunOptions::env",
                  name + " is set by the runtime; request devices in resources_per_trial");
  if (options.time_budget && !(options.time_budget->count() > 0))
    refuse_tune("RunOptions::time_budget",
                fmt::format("{} s; pass more than 0", options.time_budget->count()));
}

// One objective is a metric.
api::RunOptions with_metric(api::RunOptions options) {
  if (options.objectives.empty()) return options;
  if (!options.metric.empty())
    refuse_tune("RunOptions::objectives",
                "metric is '" + options.metric + "' as well; pass objectives alone");
  std::set<std::string> names;
  for (const api::Objective& objective : options.objectives)
    if (objective.metric.empty() || !names.insert(objective.metric).second)
      refuse_tune("RunOptions::objectives",
                  "'" + objective.metric + "' is empty or repeated; name each metric once");
  if (options.objectives.size() > 1) return options;
  options.metric = options.objectives.front().metric;
  options.mode = options.objectives.front().mode;
  options.objectives.clear();
  return options;
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
  if (domain.kind == DomainKind::normal) {
    item["mean"] = domain.low;
    item["sd"] = domain.high;
  }
  if (domain.q != 0) item["q"] = domain.q;
  for (const Value& value : domain.values) item["values"].push_back(json_of(value));
  if (domain.condition)
    item["when"] = {domain.condition->parameter, json_of(domain.condition->equals)};
  return item;
}

// "mobula::tune::detail::FunctionTrial<&train>" is the name of run<train>.
std::string name_of_type(const char* type) {
  int status = 0;
  char* text = abi::__cxa_demangle(type, nullptr, nullptr, &status);
  const std::string name = status == 0 ? text : type;
  std::free(text);
  return name;
}

// Stored events replay with equal rules alone.
void check_unchanged(const ExperimentLocation& location, const std::string& stored,
                     const std::string& present) {
  const std::string difference = spec_difference(stored, present);
  if (!difference.empty())
    refuse_tune("RunOptions::resume",
                fmt::format("experiment {}: {}; run the program that began it, or pass another "
                            "name",
                            location.directory(), difference));
}

std::vector<std::string> command_line() {
  std::vector<std::string> words;
  std::ifstream file("/proc/self/cmdline");
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
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
  // Read by the scheduler and the searcher.
  std::unique_ptr<CoreMetrics> metrics = std::make_unique<CoreMetrics>();
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

// The objectives have what the scheduler and the searcher need.
void check_objectives(const api::RunOptions& options, const MadeScheduler& scheduler) {
  const bool several = !options.objectives.empty();
  if (several && scheduler.needs_metric)
    refuse_tune("RunOptions::scheduler",
                fmt::format("{} compares trials by one metric, and objectives has {}; pass another "
                            "scheduler or one objective",
                            scheduler.name, options.objectives.size()));
  if (!several && options.metric.empty() && (scheduler.needs_metric || options.search_alg))
    refuse_tune("RunOptions::metric",
                "empty; " + scheduler.name + " and the searcher need the name of a metric");
  for (const std::string& constraint : options.constraints)
    if (constraint.empty())
      refuse_tune("RunOptions::constraints", "empty name; pass the name of a metric");
}

// The searcher's view of the options.
SearchPlan search_plan(const api::RunOptions& options, const Prepared& prepared, std::uint64_t seed,
                       const MetricsSource& metrics) {
  SearchPlan plan{.space = prepared.space,
                  .metric = options.metric,
                  .modes = {core_mode(options.mode)},
                  .constrained = !options.constraints.empty(),
                  .num_samples = options.num_samples,
                  .seed = seed,
                  .metrics = &metrics};
  if (!options.objectives.empty()) plan.modes.clear();
  for (const api::Objective& objective : options.objectives)
    plan.modes.push_back(core_mode(objective.mode));
  for (const api::Config& point : options.points_to_evaluate)
    plan.points_to_evaluate.push_back(core_config(point));
  return plan;
}

Prepared prepare(const api::detail::Trainable& trainable, const api::RunOptions& options,
                 std::uint64_t seed) {
  Prepared prepared;
  const MetricsSource& metrics = *prepared.metrics;
  prepared.space = core_space(options.space);
  const Mode mode = core_mode(options.mode);
  prepared.scheduler = checked(make_scheduler(options.scheduler, {options.metric, mode, &metrics}),
                               "RunOptions::scheduler");
  if (prepared.scheduler.mutates && options.search_alg)
    refuse_tune("RunOptions::search_alg",
                prepared.scheduler.name + " excludes a searcher; remove one of them");
  check_objectives(options, prepared.scheduler);
  if (prepared.space.empty() && !prepared.scheduler.mutates)
    refuse_tune("RunOptions::space", "empty; pass at least one parameter");
  if (Result<void> valid = prepared.space.check(); !valid)
    refuse_tune("RunOptions::space", valid.error().text);
  prepared.search =
      checked(make_search(options.search_alg, search_plan(options, prepared, seed, metrics)),
              "RunOptions::search_alg");
  const double budget = options.time_budget ? options.time_budget->count() : 0;
  if (trainable.is_command)
    check_command(trainable.command, prepared.space,
                  prepared.scheduler.mutates || prepared.search.name == "user");
  prepared.stopper = checked(make_stopper(options.stop, budget), "RunOptions::stop");

  ExperimentSettings& settings = prepared.settings;
  settings.metric = options.metric;
  settings.mode = mode;
  for (const api::Objective& objective : options.objectives)
    settings.objectives.push_back(objective.metric);
  settings.constraints = options.constraints;
  settings.duplicates = static_cast<DuplicateRule>(options.on_duplicate);
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
  // Results that a trial may reuse do not exist early.
  const bool reuses = options.on_duplicate == api::OnDuplicate::reuse;
  if (prepared.search.expands_grids && !reuses) {
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

// The experiment for which `mobula tune` started this program again; empty: none.
std::string continued_name() {
  for (const char* variable : {"MOBULA_TUNE_RESUME", "MOBULA_TUNE_REPLAY"})
    if (const char* name = std::getenv(variable)) return name;
  return {};
}

ExperimentLocation location_of(const api::RunOptions& options) {
  ExperimentLocation location{.storage = options.storage_path.empty() ? default_storage()
                                                                      : options.storage_path};
  location.name = options.name;
  if (location.name.empty()) {
    const std::string continued = continued_name();
    location.name = continued.empty() ? default_name(location.storage) : continued;
  }
  if (const auto valid = location.check(); !valid)
    refuse_tune("RunOptions::name", valid.error().text);
  location.storage = std::filesystem::absolute(location.storage).string();
  return location;
}

// Decides whether an experiment of this name continues.
bool continues(const api::RunOptions& options, const ExperimentLocation& location) {
  const bool exists = std::filesystem::exists(location.file());
  if (exists && location.name == continued_name()) return true;
  if (options.resume == api::Resume::required && !exists)
    refuse_tune("RunOptions::resume", "experiment " + location.directory() + " does not exist");
  if (options.resume == api::Resume::no && exists)
    refuse_tune("RunOptions::name", "experiment " + location.directory() +
                                        " exists; pass another name, or Resume::automatic");
  return exists;
}

std::string spec_of(const api::detail::Trainable& trainable, const api::RunOptions& options,
                    const Prepared& prepared) {
  nlohmann::ordered_json spec;
  spec["trainable"] = name_of_type(trainable.type);
  if (trainable.is_command) spec["program"] = trainable.command.argv;
  spec["space"] = nlohmann::ordered_json::object();
  for (const auto& [name, domain] : prepared.space) spec["space"][name] = json_of(domain);
  spec["command"] = command_line();
  spec["metric"] = options.metric;
  spec["mode"] = options.mode == api::Mode::max ? "max" : "min";
  spec["scheduler"] = prepared.scheduler.name;
  spec["searcher"] = prepared.search.name;
  spec["num_samples"] = options.num_samples;
  spec["early_trials"] = prepared.settings.early_trials;
  for (const api::Objective& objective : options.objectives)
    spec["objectives"].push_back(
        {{"metric", objective.metric}, {"mode", objective.mode == api::Mode::max ? "max" : "min"}});
  if (!options.constraints.empty()) spec["constraints"] = options.constraints;
  return json_text(spec);
}

StoreOptions store_options(const api::RunOptions& options) {
  StoreOptions store{.keep_events = options.keep_events};
  if (options.durability == api::Durability::relaxed)
    store.commit_interval = relaxed_commit_interval;
  return store;
}

std::unique_ptr<ExperimentLog> create_log(const std::string& spec, const api::RunOptions& options,
                                          const ExperimentLocation& location,
                                          const Prepared& prepared, std::int64_t created_ms) {
  const StoredExperiment experiment{.name = location.name,
                                    .created_ms = created_ms,
                                    .spec = spec,
                                    .seed = prepared.settings.seed,
                                    .metric = options.metric,
                                    .mode = core_mode(options.mode)};
  return checked(ExperimentLog::create(location, experiment, store_options(options)),
                 "RunOptions::storage_path");
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
    if (grid.size() == 0) throw Error("tune: " + search_error);
    print_stderr("tune: {}", search_error);
  }
  if (options.failure.fail_fast != api::FailureConfig::FailFast::raise) return;
  grid.each([](const api::TrialResult& result) {
    if (!result.error.empty()) throw Error(result.error);
  });
}

// The core of an experiment, which `prepared` has to outlive.
std::unique_ptr<ExperimentCore> make_core(Prepared& prepared) {
  auto core = std::make_unique<ExperimentCore>(
      prepared.settings, ExperimentParts{.searcher = std::move(prepared.search.algorithm),
                                         .scheduler = std::move(prepared.scheduler.rule),
                                         .budgets = prepared.scheduler.budgets,
                                         .stopper = std::move(prepared.stopper),
                                         .shape_of = prepared.shape_of});
  prepared.metrics->read(*core);
  return core;
}

// The size of the cluster at the start of an experiment decides its early trials.
void restore_settings(const StoredExperiment& experiment, ExperimentSettings& settings) {
  const auto spec = nlohmann::json::parse(experiment.spec, nullptr, false);
  if (spec.is_object() && spec.contains("early_trials") && spec["early_trials"].is_number_integer())
    settings.early_trials = spec["early_trials"].get<std::int64_t>();
}

// Replays the log for `mobula tune replay`, writes the result for it, and ends the process: the
// program of the user would continue with results that do not exist.
[[noreturn]] void replay_and_exit(const api::detail::Trainable& trainable,
                                  const api::RunOptions& options,
                                  const ExperimentLocation& location) {
  auto reader = checked(ExperimentReader::open(location), "MOBULA_TUNE_REPLAY");
  const StoredExperiment experiment = checked(reader.experiment(), "MOBULA_TUNE_REPLAY");
  Prepared prepared = prepare(trainable, options, experiment.seed);
  restore_settings(experiment, prepared.settings);
  const auto core = make_core(prepared);
  // The events before the last snapshot but one are deleted, unless the experiment keeps all.
  EventNumber after = 0;
  if (checked(reader.first_event(), "MOBULA_TUNE_REPLAY") > 1) {
    const auto snapshots = checked(reader.snapshots(), "MOBULA_TUNE_REPLAY");
    if (snapshots.empty())
      refuse_tune("MOBULA_TUNE_REPLAY", "no snapshot is intact, and the first events are deleted");
    after = snapshots.back().number;
    checked(load_snapshot(snapshots.back(), *core), "MOBULA_TUNE_REPLAY");
  }
  DecisionReplay replayed(*core, after);
  const auto done = reader.each_event(after, [&](const StoredEvent& stored) -> Result<void> {
    const Result<TimedEvent> event = load_event(stored.kind, stored.body);
    if (!event) return event.error();
    replayed.step(*event);
    return {};
  });
  if (!done) refuse_tune("MOBULA_TUNE_REPLAY", done.error().text);
  nlohmann::ordered_json result{{"events", replayed.events()},
                                {"compared", replayed.compared()},
                                {"differing", replayed.differing()},
                                {"differences", nlohmann::ordered_json::array()}};
  for (const auto& each : replayed.differences())
    result["differences"].push_back(
        {{"event", each.event}, {"trial", each.trial}, {"decisions", each.decisions}});
  const char* file = std::getenv("MOBULA_TUNE_REPLAY_FILE");
  std::ofstream(file == nullptr ? "/dev/stdout" : file) << json_text(result) << "\n" << std::flush;
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(0);
}

api::ResultGrid run_checked(const api::detail::Trainable& trainable, const api::RunOptions& given) {
  const api::RunOptions options = with_metric(given);
  check_options(options);
  RunnerParts parts{.location = location_of(options)};
  const ExperimentLocation location = parts.location;
  if (const char* replayed = std::getenv("MOBULA_TUNE_REPLAY")) {
    if (location.name == replayed) replay_and_exit(trainable, options, location);
    print_stderr("tune: {}: not run, because the program replays {}", location.name, replayed);
    return {std::vector<api::TrialResult>(), {}, {}};
  }
  std::uint64_t seed = options.seed == 0 ? drawn_seed() : options.seed;
  StoredExperiment stored;
  parts.resumed = continues(options, location);
  if (parts.resumed) {
    ResumeState state;
    parts.log = checked(ExperimentLog::resume(location, state, store_options(options)),
                        "RunOptions::resume");
    stored = std::move(state.experiment);
    parts.snapshots = std::move(state.snapshots);
    seed = stored.seed;
  }
  Prepared prepared = prepare(trainable, options, seed);
  if (parts.resumed) {
    restore_settings(stored, prepared.settings);
    parts.created_ms = stored.created_ms;
    check_unchanged(location, stored.spec, spec_of(trainable, options, prepared));
  } else {
    parts.created_ms = wall_clock_ms();
    parts.log = create_log(spec_of(trainable, options, prepared), options, location, prepared,
                           parts.created_ms);
  }
  if (const auto made = make_directory(location.checkpoints()); !made)
    refuse_tune("RunOptions::storage_path", made.error().text);
  for (const std::string& warning : prepared.search.warnings) print_stderr("tune: {}", warning);
  parts.searcher = prepared.search.name;
  parts.scheduler = prepared.scheduler.name;
  parts.core = make_core(prepared);
  const ExperimentCore& core = *parts.core;
  parts.reuses_processes = reuses_processes(trainable, options);
  // Tests take snapshots early.
  if (const char* events = std::getenv("MOBULA_TUNE_SNAPSHOT_EVENTS"))
    parts.snapshot_rule.events = std::atoll(events);
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

RunOptions restored(const std::string& path, RunOptions options) {
  const std::filesystem::path location(path);
  options.name = location.filename().string();
  if (options.name.empty())
    internal::tune::refuse_tune("Tuner::restore",
                                "'" + path + "' ends without a name; pass a name or STORAGE/NAME");
  if (location.has_parent_path()) options.storage_path = location.parent_path().string();
  options.resume = Resume::required;
  return options;
}

}  // namespace mobula::tune::detail
