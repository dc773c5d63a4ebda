#include "tune/core/schedulers/resource_changing.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

// "{CPU 2, GPU 0.5}, {CPU 1}".
std::string text_of(const ResourceBundles& bundles) {
  std::string text;
  for (const ResourceBundle& bundle : bundles) {
    std::string amounts;
    for (const auto& [name, amount] : bundle)
      amounts += fmt::format("{}{} {:g}", amounts.empty() ? "" : ", ", name,
                             static_cast<double>(amount) / 10000);
    text += fmt::format("{}{{{}}}", text.empty() ? "" : ", ", amounts);
  }
  return text;
}

class ResourceChangingScheduler final : public TrialScheduler {
 public:
  ResourceChangingScheduler(TrialSchedulerPtr base, AllocationFunction allocation)
      : base_(std::move(base)), allocation_(std::move(allocation)) {}

  Result<void> added(TrialNumber trial, SchedulerStep step) override {
    const ResourceBundles& resources = step.trials.row(trial).resources;
    if (!base_resources_) {
      base_resources_ = resources;
    } else if (!reallocated_.contains(trial) && resources != *base_resources_) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("trial {}: its resources differ from those of the first trial; "
                                 "start all trials with equal resources_per_trial",
                                 trial));
    }
    return base_->added(trial, step);
  }

  Result<Decision> reported(const Report& report, SchedulerStep step) override {
    Result<Decision> decision = base_->reported(report, step);
    if (!decision || *decision != Decision::proceed || !allocation_) return decision;
    auto resources = allocation_(report, step.trials, base_resources_.value_or(ResourceBundles()));
    if (!resources) return resources.error();
    if (!*resources || (*resources)->empty() ||
        **resources == step.trials.row(report.trial).resources)
      return decision;
    DecisionNote note{.trial = report.trial,
                      .rule = DecisionNote::Rule::resources,
                      .outcome = DecisionNote::Outcome::paused,
                      .milestone = report.time,
                      .value = report.value};
    note.set_words("the trial continues in a group of " + text_of(**resources));
    step.trials.note(std::move(note));
    changes_[report.trial] = std::move(**resources);
    return Decision::pause;
  }

  void completed(const Report& last, SchedulerStep step) override {
    changes_.erase(last.trial);
    base_->completed(last, step);
  }
  void failed(TrialNumber trial, SchedulerStep step) override { base_->failed(trial, step); }
  void removed(TrialNumber trial, SchedulerStep step) override {
    changes_.erase(trial);
    base_->removed(trial, step);
  }

  std::optional<TrialNumber> choose(SchedulerStep step) override {
    // Ray loses the changes of all trials but the first one here.
    for (auto change = changes_.begin(); change != changes_.end();) {
      const auto& [trial, resources] = *change;
      const TrialState state = step.trials.state(trial);
      if (state == TrialState::running || state == TrialState::pausing) {
        ++change;
        continue;
      }
      step.trials.row(trial).resources = resources;
      step.trials.command(ChangeResources{trial, resources});
      reallocated_.insert(trial);
      to_resume_.insert(trial);
      change = changes_.erase(change);
    }
    std::optional<TrialNumber> chosen = base_->choose(step);
    // A rule that pauses trials itself does not know the pause for other resources. Ray never
    // continues such a trial.
    while (!chosen && !to_resume_.empty()) {
      const TrialNumber first = *to_resume_.begin();
      to_resume_.erase(to_resume_.begin());
      if (step.trials.state(first) == TrialState::paused) chosen = first;
    }
    if (chosen) to_resume_.erase(*chosen);
    return chosen;
  }

  Result<std::optional<TrialDecision>> saved(TrialNumber trial, CheckpointNumber checkpoint,
                                             SchedulerStep step) override {
    return base_->saved(trial, checkpoint, step);
  }
  bool waits_for_checkpoint() const override { return base_->waits_for_checkpoint(); }
  bool pauses_for_good() const override { return base_->pauses_for_good(); }
  void checkpoints_in_use(std::vector<CheckpointNumber>& out) const override {
    base_->checkpoints_in_use(out);
  }

  bool can_save() const override { return base_->can_save(); }
  std::string save() const override {
    StateWriter writer;
    writer(base_->save(), base_resources_, changes_, reallocated_, to_resume_);
    return writer.take();
  }
  Result<void> load(std::string_view state) override {
    StateReader reader(state);
    std::string base;
    reader(base, base_resources_, changes_, reallocated_);
    // A state of an earlier release ends here.
    if (!reader.finished()) reader(to_resume_);
    if (!reader.finished())
      return failure(ErrorCode::corrupt, "load resource changing scheduler: malformed state");
    return base_->load(base);
  }

 private:
  TrialSchedulerPtr base_;
  AllocationFunction allocation_;
  std::optional<ResourceBundles> base_resources_;
  std::map<TrialNumber, ResourceBundles> changes_;  // applied once the trial is paused
  std::set<TrialNumber> reallocated_;
  std::set<TrialNumber> to_resume_;  // paused for other resources
};

}  // namespace

TrialSchedulerPtr make_resource_changing(TrialSchedulerPtr base, AllocationFunction allocation) {
  return std::make_unique<ResourceChangingScheduler>(std::move(base), std::move(allocation));
}

}  // namespace mobula::internal::tune
