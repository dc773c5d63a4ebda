#include "tune/core/experiment/decision_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>
#include <variant>

namespace mobula::internal::tune {
namespace {

constexpr std::size_t most_differences = 10;
constexpr std::size_t most_commands = 20;

// FNV-1a over words and texts.
class Digest {
 public:
  template <class... T>
  void add(const T&... values) {
    (put(values), ...);
  }
  std::uint64_t value() const { return hash_ == 0 ? 1 : hash_; }

 private:
  void put(std::uint64_t word) {
    for (int i = 0; i < 8; ++i) put_byte(static_cast<unsigned char>(word >> (8 * i)));
  }
  void put(std::int64_t number) { put(static_cast<std::uint64_t>(number)); }
  void put(double number) {
    // All NaNs are equal.
    const auto rounded = static_cast<float>(number);
    put(std::uint64_t{rounded == rounded ? std::bit_cast<std::uint32_t>(rounded) : ~0U});
  }
  void put(const std::string& text) {
    put(static_cast<std::uint64_t>(text.size()));
    for (const char each : text) put_byte(static_cast<unsigned char>(each));
  }
  void put(const Value& value) {
    if (value.is_text())
      put(value.text());
    else
      put(value.number());
  }
  void put(const Config& config) {
    put(static_cast<std::uint64_t>(config.size()));
    for (const auto& [name, value] : config) add(name, value);
  }
  void put(const ResourceBundles& bundles) {
    put(static_cast<std::uint64_t>(bundles.size()));
    for (const ResourceBundle& bundle : bundles)
      for (const auto& [name, amount] : bundle) add(name, amount);
  }
  void put_byte(unsigned char byte) { hash_ = (hash_ ^ byte) * 0x100000001b3ULL; }

  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

class CommandDigest {
 public:
  CommandDigest(const ExperimentCore& core, Digest& digest) : core_(core), digest_(digest) {}

  void operator()(const MakeGroup& made) {
    digest_.add(made.group, made.shape.bundles, std::uint64_t{made.shape.strategy});
  }
  void operator()(const RemoveGroup& removed) { digest_.add(removed.group); }
  void operator()(const StartTrial& start) {
    digest_.add(start.trial, start.attempt, start.group, start.config, start.seed, start.checkpoint,
                start.iteration);
  }
  void operator()(const ContinueTrial& each) { digest_.add(each.trial); }
  void operator()(const SaveCheckpoint& each) { digest_.add(each.trial); }
  void operator()(const EndTrial& each) { digest_.add(each.trial); }
  void operator()(const DeleteCheckpoint& each) { digest_.add(each.checkpoint, each.directory); }
  void operator()(const TrialChanged& each) {
    const TrialRecord& record = core_.record(each.trial);
    digest_.add(each.trial, static_cast<std::uint64_t>(core_.trials().state(each.trial)),
                record.attempt, record.config, record.error_kind);
  }
  void operator()(const CheckpointAdded& each) { digest_.add(each.checkpoint); }
  void operator()(const TrialExploited& each) {
    digest_.add(each.trial, each.donor, each.iteration, each.donor_iteration, each.config);
  }
  void operator()(const TrialWarning& each) { digest_.add(each.trial); }
  void operator()(const ExperimentEnded& /*each*/) {}
  void operator()(const TrialDecided& /*each*/) {}

 private:
  const ExperimentCore& core_;
  Digest& digest_;
};

struct CommandText {
  std::string operator()(const MakeGroup& each) { return fmt::format("make group {}", each.group); }
  std::string operator()(const RemoveGroup& each) {
    return fmt::format("remove group {}", each.group);
  }
  std::string operator()(const StartTrial& each) {
    return fmt::format("start trial {}, attempt {}, in group {}", each.trial, each.attempt,
                       each.group);
  }
  std::string operator()(const ContinueTrial& each) {
    return fmt::format("continue trial {}", each.trial);
  }
  std::string operator()(const SaveCheckpoint& each) {
    return fmt::format("save trial {}", each.trial);
  }
  std::string operator()(const EndTrial& each) { return fmt::format("end trial {}", each.trial); }
  std::string operator()(const DeleteCheckpoint& each) {
    return fmt::format("delete checkpoint {}", each.checkpoint);
  }
  std::string operator()(const TrialChanged& each) {
    return fmt::format("change trial {}", each.trial);
  }
  std::string operator()(const CheckpointAdded& each) {
    return fmt::format("add checkpoint {}", each.checkpoint);
  }
  std::string operator()(const TrialExploited& each) {
    return fmt::format("copy trial {} to trial {}", each.donor, each.trial);
  }
  std::string operator()(const TrialWarning& each) {
    return fmt::format("warn about trial {}", each.trial);
  }
  std::string operator()(const ExperimentEnded& /*each*/) { return "end the experiment"; }
  std::string operator()(const TrialDecided& each) {
    return fmt::format("note trial {}", each.note.trial);
  }
};

}  // namespace

std::uint64_t decision_digest(const ExperimentCore& core,
                              const std::vector<ExperimentCommand>& commands) {
  Digest digest;
  for (const ExperimentCommand& command : commands) {
    // A note is no decision.
    if (std::holds_alternative<TrialDecided>(command)) continue;
    digest.add(static_cast<std::uint64_t>(command.index()));
    std::visit(CommandDigest(core, digest), command);
  }
  return digest.value();
}

std::string decision_text(const std::vector<ExperimentCommand>& commands) {
  std::string text;
  for (std::size_t i = 0; i < std::min(commands.size(), most_commands); ++i)
    text += (i == 0 ? "" : "; ") + std::visit(CommandText(), commands[i]);
  if (commands.size() > most_commands)
    text += fmt::format("; and {} others", commands.size() - most_commands);
  return text.empty() ? "none" : text;
}

void DecisionReplay::step(const TimedEvent& event) {
  ++events_;
  commands_.clear();
  core_.step(event.now_s, event.event, commands_);
  if (event.digest == 0) return;
  ++compared_;
  if (decision_digest(core_, commands_) == event.digest) return;
  if (++differing_ <= static_cast<std::int64_t>(most_differences))
    differences_.push_back({events_, trial_of_event(event.event), decision_text(commands_)});
}

}  // namespace mobula::internal::tune
