// The process of a trial and its messages: the actor that runs the user's function or class, and
// its type-erased handle in the driver.
// Thread: TrialProcess: any. Others: owner.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <mobula/actor.h>
#include <mobula/deferred.h>
#include <mobula/get.h>
#include <mobula/options.h>
#include <mobula/tune/config.h>
#include <mobula/tune/resources.h>

namespace mobula::tune {

// Any program as a trial. "{lr}" in an argument or a variable stands for the parameter lr; an
// argument or a variable with an inactive parameter is left out. "{{lr}}" is the text "{lr}", and
// "${lr}" stays as it is. The program writes a JSON object per report, one per line, to the file
// descriptor MOBULA_TUNE_FD, and reads a line with the decision from it, "continue" or "stop". The
// member "checkpoint" names a directory to save.
struct Command {
  std::vector<std::string> argv = {};  // program and arguments
  Environment env = {};                // variables of the program
  bool reports_on_stdout = false;  // lines of the standard output that are JSON objects are reports
};

// Options of Tuner::restore.
struct RestoreOptions {
  bool resume_unfinished = true;  // false: unfinished trials end with their last reports
  bool resume_errored = false;    // repeats failed trials from their last checkpoints
  bool restart_errored = false;   // repeats failed trials from the beginning
};

namespace detail {

// The start of one attempt.
struct TrialStart {
  std::uint64_t number = 0;  // number of the start, unique for the driver
  std::int64_t trial = 0;
  int attempt = 0;
  std::string experiment = {};
  std::string directory = {};    // working files of the trial
  std::string checkpoints = {};  // parent directory of saved checkpoints
  std::uint64_t seed = 0;
  Config config = {};
  PlacementGroup group = {};
  std::vector<std::map<std::string, double>> bundles = {};  // with an empty bundle 0
  Strategy strategy = Strategy::pack;
  int first_worker = 0;         // index of the first bundle of workers in the group
  std::string checkpoint = {};  // directory to continue from; empty: none
  std::int64_t iteration = 0;   // reports before this attempt
  double time_total_s = 0;      // time before this attempt
  Command command = {};         // program of a CommandTrial
};

struct TrialReport {
  Metrics metrics = {};         // without those of the members below
  std::string checkpoint = {};  // saved directory; empty: none
  std::int64_t iteration = 0;
  double step_s = 0;   // time since the last report
  double total_s = 0;  // time of the trial
};

enum class TrialExit : std::uint8_t { running, returned, stopped, threw };

// The reports since the last call, and the end of the function.
struct TrialNews {
  std::vector<TrialReport> reports = {};
  std::optional<std::string> saved = {};  // answer of a save: the directory, or empty
  TrialExit exit = TrialExit::running;
  std::string error = {};
  // In the first news of a start, and when identified.
  std::int64_t process = 0;
  std::string node = {};
};

// The decision about all reports so far.
struct TrialOrder {
  std::uint64_t start = 0;   // number of the start
  std::int64_t decided = 0;  // number of reports of this attempt that are decided
  bool stop = false;
  bool save = false;
  bool identify = false;  // answer as soon as the process runs the attempt
};

// The actor of a trial. `run` executes the user's code; `next` exchanges reports and decisions.
class MOBULA_API TrialProcess {
 public:
  TrialProcess();
  TrialProcess(const TrialProcess&) = delete;
  TrialProcess& operator=(const TrialProcess&) = delete;
  virtual ~TrialProcess();

  void run(const TrialStart& start);
  Deferred<TrialNews> next(const TrialOrder& order);

 protected:
  virtual void body(const Config& config);
  // A stop or a pause is ordered. Thread: any; that of body while it waits in a report.
  virtual void stop_requested() {}
  const TrialStart& trial_start() const;
  // For bodies: a report of a class, whose `save` writes a directory when the driver asks for it.
  void report_step(const Metrics& metrics, const std::function<void(const std::string&)>& save);
  // The last report of a function that returned.
  void report_result(const Metrics& metrics);
  std::string checkpoint_path() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the threads that report
};

template <class F>
inline constexpr bool is_trial_function =
    std::is_invocable_r_v<void, F, const Config&>&& std::is_pointer_v<F>;

template <class C>
inline constexpr bool is_trial_class = requires(C& object, const Config& config,
                                                const std::string& directory) {
  object.setup(config);
  { object.step() } -> std::convertible_to<Metrics>;
  object.save(directory);
  object.load(directory);
};

template <class C>
inline constexpr bool has_reset = requires(C& object, const Config& config) {
  { object.reset(config) } -> std::convertible_to<bool>;
};

template <auto F>
class FunctionTrial final : public TrialProcess {
 public:
  static constexpr bool is_class = false;
  static constexpr bool resets = false;

 private:
  void body(const Config& config) override {
    using Result = std::invoke_result_t<decltype(F), const Config&>;
    if constexpr (std::is_convertible_v<Result, Metrics>)
      report_result(F(config));
    else
      F(config);
  }
};

template <class C>
class ClassTrial final : public TrialProcess {
 public:
  static constexpr bool is_class = true;
  static constexpr bool resets = has_reset<C>;

 private:
  void body(const Config& config) override {
    prepare(config);
    if (const std::string path = checkpoint_path(); !path.empty()) object_->load(path);
    for (;;) {
      const Metrics metrics = object_->step();
      report_step(metrics, [this](const std::string& directory) { object_->save(directory); });
      const auto done = metrics.find("done");
      if (done != metrics.end() && done->second == Value(true)) return;
    }
  }
  void prepare(const Config& config) {
    if constexpr (has_reset<C>)
      if (object_ && object_->reset(config)) return;
    object_ = std::make_unique<C>();
    object_->setup(config);
  }

  std::unique_ptr<C> object_;
};

// Runs a program.
class MOBULA_API CommandTrial final : public TrialProcess {
 public:
  static constexpr bool is_class = false;
  static constexpr bool resets = false;

  CommandTrial();
  ~CommandTrial() override;

 private:
  struct StopSignal;

  void body(const Config& config) override;
  void stop_requested() override;

  const std::unique_ptr<StopSignal> stop_;
};

// A handle of the actor of a trial.
class MOBULA_API TrialHandle {
 public:
  virtual ~TrialHandle();
  virtual ObjectRef<void> run(const TrialStart& start) = 0;
  virtual ObjectRef<TrialNews> next(const TrialOrder& order) = 0;
  virtual void kill() = 0;
};

template <class A>
class TypedTrialHandle final : public TrialHandle {
 public:
  explicit TypedTrialHandle(const ActorOptions& options)
      : actor_(mobula::actor<A>.options(options).remote()) {}
  ObjectRef<void> run(const TrialStart& start) override {
    // The calls of `next` have another thread, or that of `run` while it waits in a report.
    return actor_.template method<&A::run>().options({.concurrency_group = "trial"}).remote(start);
  }
  ObjectRef<TrialNews> next(const TrialOrder& order) override {
    return actor_.template call<&A::next>(order);
  }
  void kill() override { mobula::kill(actor_); }

 private:
  ActorHandle<A> actor_;
};

// A type of trials.
struct Trainable {
  std::unique_ptr<TrialHandle> (*create)(const ActorOptions& options) = nullptr;
  bool is_class = false;  // saves on request
  bool resets = false;    // a process can run several trials
  const char* type = "";  // typeid of the actor
  RestoreOptions restore = {};
  bool is_command = false;
  Command command = {};  // program of a CommandTrial
};

template <class A>
Trainable trainable() {
  Trainable made;
  made.type = typeid(A).name();
  made.create = [](const ActorOptions& options) -> std::unique_ptr<TrialHandle> {
    return std::make_unique<TypedTrialHandle<A>>(options);
  };
  made.is_class = A::is_class;
  made.resets = A::resets;
  return made;
}

}  // namespace detail
}  // namespace mobula::tune
