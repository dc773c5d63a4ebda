// Snapshots of the core of an experiment.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "tune/core/experiment/experiment_core.h"
#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

// Grows when the content of a snapshot changes.
constexpr std::uint32_t state_format = 1;

using SavedEvent = std::pair<std::int64_t, std::string>;  // kind, body

}  // namespace

std::optional<ExperimentCore::SavedState> ExperimentCore::save() const {
  if (!parts_.scheduler->can_save() || !parts_.searcher->can_save()) return std::nullopt;
  std::vector<SavedEvent> deferred;
  for (const ExperimentEvent& event : deferred_)
    deferred.emplace_back(static_cast<std::int64_t>(event.index()), save_event(0, event));
  StateWriter writer;
  writer(state_format, parts_.scheduler->save(), parts_.stopper->save(), deferred);
  fields(*this, writer);
  return SavedState{writer.take(), parts_.searcher->save()};
}

Result<void> ExperimentCore::load(std::string_view core, std::string_view searcher) {
  StateReader reader(core);
  std::uint32_t format = 0;
  reader(format);
  if (!reader.failed() && format != state_format)
    return failure(ErrorCode::corrupt,
                   fmt::format("load experiment: snapshot format {}, expected {}; resume with the "
                               "release that wrote the experiment",
                               format, state_format));
  std::string scheduler;
  std::string stopper;
  std::vector<SavedEvent> deferred;
  reader(scheduler, stopper, deferred);
  fields(*this, reader);
  if (!reader.finished() || records_.size() != trials_.size())
    return failure(ErrorCode::corrupt,
                   fmt::format("load experiment: malformed snapshot of {} bytes; restore the file "
                               "from a backup",
                               core.size()));
  for (const auto& [kind, body] : deferred) {
    const Result<TimedEvent> event = load_event(kind, body);
    if (!event) return event.error();
    deferred_.push_back(event->event);
  }
  if (Result<void> loaded = parts_.scheduler->load(scheduler); !loaded) return loaded;
  if (Result<void> loaded = parts_.stopper->load(stopper); !loaded) return loaded;
  return parts_.searcher->load(searcher);
}

}  // namespace mobula::internal::tune
