#include "tune/core/experiment/experiment_events.h"

#include <cstddef>
#include <utility>

#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

template <std::size_t index>
Result<ExperimentEvent> load_kind(std::size_t kind, StateReader& reader) {
  if constexpr (index == std::variant_size_v<ExperimentEvent>) {
    return failure(ErrorCode::corrupt, "load event: unknown kind " + std::to_string(kind) +
                                           "; resume with the release that wrote the experiment");
  } else {
    if (kind != index) return load_kind<index + 1>(kind, reader);
    std::variant_alternative_t<index, ExperimentEvent> event;
    reader(event);
    return ExperimentEvent(std::move(event));
  }
}

}  // namespace

const char* name_of(TrialExitKind kind) {
  switch (kind) {
    case TrialExitKind::returned: return "completed";
    case TrialExitKind::stopped: return "stopped";
    case TrialExitKind::exception: return "exception";
    case TrialExitKind::crash: return "crash";
    case TrialExitKind::out_of_memory: return "out_of_memory";
    case TrialExitKind::node_lost: return "node_lost";
  }
  return "";
}

std::string save_event(double now_s, const ExperimentEvent& event, std::uint64_t digest) {
  StateWriter writer;
  writer(now_s);
  std::visit([&](const auto& each) { writer(each); }, event);
  if (digest != 0) writer(digest);
  return writer.take();
}

Result<TimedEvent> load_event(std::int64_t kind, std::string_view body) {
  StateReader reader(body);
  TimedEvent timed;
  reader(timed.now_s);
  Result<ExperimentEvent> event = load_kind<0>(static_cast<std::size_t>(kind), reader);
  if (!event) return event.error();
  if (!reader.finished()) reader(timed.digest);
  if (!reader.finished())
    return failure(ErrorCode::corrupt,
                   "load event: malformed event of kind " + std::to_string(kind));
  timed.event = std::move(*event);
  return timed;
}

TrialNumber trial_of_event(const ExperimentEvent& event) {
  return std::visit(
      [](const auto& each) -> TrialNumber {
        if constexpr (requires { each.trial; }) return each.trial;
        return -1;
      },
      event);
}

}  // namespace mobula::internal::tune
